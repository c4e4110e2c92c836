#include "coordinator/api_rpc/service_wait.h"

#include <stdlib.h>

#include "common/base/str.h"
#include "coordinator/api_rpc/service_answer.h"
#include "coordinator/api_rpc/service_state.h"

enum { KEY_MAX = sizeof((struct service_call *)0)->key };

static void key_of(enum wait_topic topic, const char *name, char ret[KEY_MAX])
{
    static const char *const words[] = {
#define X(upper, lower) [WAIT_##upper] = #lower,
        WAIT_TOPICS(X)
#undef X
    };
    (void)str_printf(ret, KEY_MAX, "%s/%s", words[topic], name);
}

void service_wake_call(struct service_call *call)
{
    struct service *service = call->service;
    if (call->key[0])
        service->stats.waiting--;
    call->key[0] = 0;
    list_remove(&call->link);
    loop_timer_cancel(service->options.loop, &call->timer);
    budget_ready(&service->budgets, call->budget, &call->ready);
}

static void wait_over(void *arg)
{
    service_wake_call(arg);
}

/* The calls that wait on this key; NULL if memory is out. */
static struct list *waiters_of(struct service *service, const char *key)
{
    struct list *waiters = strmap_get(&service->waiting, key);
    if (waiters)
        return waiters;
    waiters = malloc(sizeof(*waiters));
    if (!waiters || strmap_set(&service->waiting, key, waiters, NULL)) {
        free(waiters);
        return NULL;
    }
    list_init(waiters);
    return waiters;
}

void service_wait(struct service_call *call, enum wait_topic topic, const char *name,
                  int64_t again_ms)
{
    struct service *service = call->service;
    char key[KEY_MAX];
    key_of(topic, name, key);
    struct list *waiters = waiters_of(service, key);
    if (!waiters) {
        struct error err;
        error_set(&err, E_RESOURCE_EXHAUSTED, "out of memory");
        service_fail(call, &err);
        return;
    }
    (void)str_copy(call->key, sizeof(call->key), key);
    service->stats.waiting++;
    list_remove(&call->link);
    list_push_back(waiters, &call->link);
    int64_t due = call->deadline_ms - SERVICE_LONG_POLL_MARGIN_MS;
    loop_timer_set(service->options.loop, &call->timer, again_ms < due ? again_ms : due, wait_over,
                   call);
}

static void wake_key(struct service *service, const char *key)
{
    struct list *waiters = strmap_get(&service->waiting, key);
    if (!waiters)
        return;
    while (!list_empty(waiters))
        service_wake_call(list_first(waiters, struct service_call, link));
    strmap_remove(&service->waiting, key);
    free(waiters);
}

void service_wake(struct service *service, enum wait_topic topic, const char *name)
{
    char key[KEY_MAX];
    key_of(topic, name, key);
    wake_key(service, key);
}

void service_wake_all(struct service *service)
{
    struct strmap *waiting = &service->waiting;
    for (struct map_entry *e = strmap_first(waiting); e; e = strmap_first(waiting))
        wake_key(service, e->name);
}
