#include "libworker/parallel/wires_watch.h"

#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int watch_look(struct wk_comm *comm)
{
    struct wk_comm_status status;
    (void)wk_comm_lost(comm, NULL, 0); /* it reads what the other ranks have sent */
    wk_comm_status(comm, &status);
    return status.failure;
}

static struct timespec after_ms(int64_t ms)
{
    struct timespec at;
    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += ms / 1000;
    at.tv_nsec += (long)(ms % 1000) * 1000000;
    if (at.tv_nsec >= 1000000000) {
        at.tv_sec++;
        at.tv_nsec -= 1000000000;
    }
    return at;
}

static void cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attributes;
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(cond, &attributes);
    (void)pthread_condattr_destroy(&attributes);
}

/* An abort on a thread of its own, which its caller waits for. */
struct abortion {
    const struct wire_ops *ops;
    struct device_wire *const *wires;
    int n;
    bool done;
    pthread_mutex_t lock;
    pthread_cond_t changed;
};

static void *run_abort(void *arg)
{
    struct abortion *a = arg;
    a->ops->abort(a->wires, a->n);
    pthread_mutex_lock(&a->lock);
    a->done = true;
    (void)pthread_cond_signal(&a->changed);
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

static bool await(struct abortion *a, int64_t ms)
{
    struct timespec until = after_ms(ms);
    int rc = 0;
    pthread_mutex_lock(&a->lock);
    while (!a->done && rc != ETIMEDOUT)
        rc = pthread_cond_timedwait(&a->changed, &a->lock, &until);
    bool done = a->done;
    pthread_mutex_unlock(&a->lock);
    return done;
}

/* Its device no longer answers: no generation can be made in this process. */
static _Noreturn void give_up(const struct wires_options *options)
{
    if (options->remark)
        options->remark(options->arg, "collectives of a generation that has failed could not be "
                                      "ended on the device in time: this process ends, so that it "
                                      "is started again");
    _exit(WIRES_EXIT);
}

void watch_abort(const struct wires_watch *watch, struct device_wire *const *wires, int n)
{
    struct abortion a = {.ops = watch->ops, .wires = wires, .n = n};
    pthread_t thread;
    if (!n)
        return;
    (void)pthread_mutex_init(&a.lock, NULL);
    cond_init(&a.changed);
    if (pthread_create(&thread, NULL, run_abort, &a))
        give_up(watch->options);
    if (!await(&a, watch->options->abort_ms))
        give_up(watch->options);
    (void)pthread_join(thread, NULL);
    (void)pthread_cond_destroy(&a.changed);
    (void)pthread_mutex_destroy(&a.lock);
}

/* `broken`, if not NULL, is ended too: its wire has failed, and no rank of it. */
static void stop_all(struct wires_watch *watch, int code, struct wk_comm *broken)
{
    struct device_wire *wires[WIRES_MAX] = {0};
    for (int i = 0; i < watch->n; i++)
        wires[i] = watch->list[i].wire;
    /* Before the abort: what reads the word after a collective with undefined content sees it, and
     * the host then sees the code. */
    atomic_store(&watch->failure, code);
    atomic_store(watch->stop, 1);
    if (broken)
        wk_comm_abort(broken);
    /* A thread of this process may wait for another host, which has not noticed. */
    for (int i = 0; i < watch->n; i++)
        wk_comm_abort(watch->list[i].whole);
    watch_abort(watch, wires, watch->n);
}

static int64_t now_ms(void)
{
    struct timespec now = after_ms(0);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* A rank leaves once its own collectives have ended. Then the others' have soon, or never will. */
static bool is_left_behind(struct watched *watched)
{
    struct wk_comm_status status;
    wk_comm_status(watched->comm, &status);
    if (status.left && !watched->left_ms)
        watched->left_ms = now_ms();
    return status.left && now_ms() - watched->left_ms > WIRES_LEFT_MS;
}

/* The whole first: its failure is what the part's follows from. */
static int watch_look_at_both(const struct watched *watched)
{
    int code = watched->whole ? watch_look(watched->whole) : 0;
    return code ? code : watch_look(watched->comm);
}

/* The code of one that failed. A wire that its device reports as failed fails its communicator, so
 * that every rank ends this generation: then *ret_broken is the communicator. */
static int look_at_all(struct wires_watch *watch, struct wk_comm **ret_broken)
{
    int code = 0;
    *ret_broken = NULL;
    for (int i = 0; i < watch->n && !code; i++) {
        int state = watch->ops->ready(watch->list[i].wire, NULL);
        code = watch_look_at_both(&watch->list[i]);
        if (!code && state < 0) {
            *ret_broken = watch->list[i].comm;
            return state;
        }
        if (!code && is_left_behind(&watch->list[i]))
            code = WK_EPEER;
    }
    return code;
}

static void *run_watch(void *arg)
{
    struct wires_watch *watch = arg;
    pthread_mutex_lock(&watch->lock);
    while (!watch->ends) {
        struct wk_comm *broken = NULL;
        int code = atomic_load(&watch->failure) ? 0 : look_at_all(watch, &broken);
        if (code)
            stop_all(watch, code, broken);
        struct timespec until = after_ms(WIRES_LOOK_MS);
        if (!watch->ends)
            (void)pthread_cond_timedwait(&watch->changed, &watch->lock, &until);
    }
    pthread_mutex_unlock(&watch->lock);
    return NULL;
}

static int begin(struct wires_watch *watch, struct error *err)
{
    (void)pthread_mutex_init(&watch->lock, NULL);
    cond_init(&watch->changed);
    watch->ends = false;
    watch->n = 0;
    atomic_store(&watch->failure, 0);
    atomic_store(watch->stop, 0);
    int rc = pthread_create(&watch->thread, NULL, run_watch, watch);
    if (!rc) {
        watch->runs = true;
        return 0;
    }
    (void)pthread_cond_destroy(&watch->changed);
    (void)pthread_mutex_destroy(&watch->lock);
    return error_set(err, WK_ENOMEM, "no thread to watch the ranks: %s", strerror(rc));
}

int watch_add(struct wires_watch *watch, const struct watched *watched, struct error *err)
{
    int rc = watch->runs ? 0 : begin(watch, err);
    if (rc)
        return rc;
    pthread_mutex_lock(&watch->lock);
    watch->list[watch->n++] = *watched;
    pthread_mutex_unlock(&watch->lock);
    return 0;
}

void watch_remove(struct wires_watch *watch, const struct wk_comm *comm)
{
    if (!watch->runs)
        return;
    pthread_mutex_lock(&watch->lock);
    for (int i = 0; i < watch->n; i++)
        if (watch->list[i].comm == comm)
            watch->list[i] = watch->list[--watch->n];
    pthread_mutex_unlock(&watch->lock);
}

void watch_end(struct wires_watch *watch)
{
    if (!watch->runs)
        return;
    pthread_mutex_lock(&watch->lock);
    watch->ends = true;
    (void)pthread_cond_signal(&watch->changed);
    pthread_mutex_unlock(&watch->lock);
    (void)pthread_join(watch->thread, NULL);
    (void)pthread_cond_destroy(&watch->changed);
    (void)pthread_mutex_destroy(&watch->lock);
    watch->runs = false;
}
