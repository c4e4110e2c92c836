#include "coordinator/api_rpc/channels.h"

#include <string.h>

#include "common/base/str.h"
#include "coordinator/api_rpc/service_audit.h"
#include "coordinator/api_rpc/service_state.h"
#include "coordinator/api_rpc/service_wait.h"
#include "coordinator/core/channel_note.h"
#include "coordinator/model/query.h"

enum { SWEEP_MS = 1000, KEY_MAX = 2 * CHANNEL_ID_BYTES + 8 };

/* Standard error shares the waiters of standard output: one call receives both. */
static void key_of(const struct channel *channel, enum channel_stream stream, char ret[KEY_MAX])
{
    (void)str_printf(ret, KEY_MAX, "%s/%s", channel->id, stream == CHANNEL_IN ? "in" : "out");
}

void channels_wait(struct service_call *call, const struct channel *channel,
                   enum channel_stream stream, int64_t again_ms)
{
    char key[KEY_MAX];
    key_of(channel, stream, key);
    service_wait(call, WAIT_CHANNEL, key, again_ms);
}

void channels_wake(struct service *service, const struct channel *channel,
                   enum channel_stream stream)
{
    char key[KEY_MAX];
    key_of(channel, stream, key);
    service_wake(service, WAIT_CHANNEL, key);
}

static void audit_end(struct service *service, const struct channel *channel, const char *text)
{
    struct store_audit entry = {.wall_ms = service_wall_ms(service)};
    (void)str_copy(entry.token, sizeof(entry.token), channel->owner);
    (void)str_copy(entry.token_name, sizeof(entry.token_name), channel->user);
    (void)str_copy(entry.tenant, sizeof(entry.tenant), channel->tenant);
    (void)str_copy(entry.method, sizeof(entry.method), "EndChannel");
    (void)str_copy(entry.object, sizeof(entry.object), channel->job);
    (void)str_copy(entry.result, sizeof(entry.result), error_name(0));
    (void)str_copy(entry.text, sizeof(entry.text), text);
    service_audit_entry(service, &entry);
}

/* A page in a browser opens connections by the dozen: their ends are not events. */
static void tell_end(struct service *service, struct channel *channel)
{
    char how[CHANNEL_TEXT_MAX + 1], text[CHANNEL_TEXT_MAX + 256];
    channel_end_text(&channel->end, how);
    (void)str_printf(text, sizeof(text),
                     "%s of %s ended after %lld s: %.300s; %llu bytes in, %llu out", channel->words,
                     channel->user, (long long)(channel->over_ms - channel->opened_ms) / 1000, how,
                     (unsigned long long)channel->pipes[CHANNEL_IN].accepted,
                     (unsigned long long)(channel->pipes[CHANNEL_OUT].accepted +
                                          channel->pipes[CHANNEL_ERRORS].accepted));
    audit_end(service, channel, text);
    if (channel->port || !cluster_job(service_cluster(service), channel->job))
        return;
    struct channel_note note = {.job = channel->job,
                                .node = channel->node,
                                .rank = channel->rank,
                                .ended = true,
                                .text = text};
    struct event event = {.kind = EVENT_JOB_CHANNEL, .job_channel = &note};
    service->options.host.step(service->options.host.self, &event);
}

static bool owner_is_valid(struct service *service, const struct channel *channel)
{
    int64_t wall_ms = service_wall_ms(service);
    const struct store_token *token = access_token(service->access, channel->owner, wall_ms);
    return token && access_is_valid(token, wall_ms);
}

static void settle(void *arg)
{
    struct service *service = arg;
    int64_t now_ms = service_now_ms(service);
    for (struct channel *c = relay_first(service->relay); c; c = relay_next(service->relay, c))
        if (!c->over && !owner_is_valid(service, c))
            (void)channel_stop(c, now_ms, "its token is good no more");
    (void)relay_sweep(service->relay, now_ms);
    for (struct channel *c = relay_first(service->relay); c; c = relay_next(service->relay, c)) {
        if (!c->over || c->told)
            continue;
        c->told = true;
        if (c->announced)
            tell_end(service, c);
        channels_wake(service, c, CHANNEL_IN);
        channels_wake(service, c, CHANNEL_OUT);
        service_wake(service, WAIT_NODE, c->node);
    }
    if (relay_sweep(service->relay, now_ms)) /* also those that were ended above */
        loop_timer_set(service->options.loop, &service->channels, now_ms + SWEEP_MS, settle,
                       service);
}

void channels_changed(struct service *service)
{
    loop_timer_set(service->options.loop, &service->channels, service_now_ms(service), settle,
                   service);
}

void channels_job_changed(struct service *service, const char *job)
{
    const struct cluster *cluster = service_cluster(service);
    bool any = false;
    for (struct channel *c = relay_first(service->relay); c; c = relay_next(service->relay, c)) {
        if (c->over || (job && strcmp(c->job, job) != 0))
            continue;
        const struct job *known = cluster_job(cluster, c->job);
        const struct worker *worker = known ? job_worker(known, c->uid) : NULL;
        if (!worker || !worker_living(worker) || strcmp(worker->node, c->node) != 0)
            any |= channel_stop(c, service_now_ms(service), "rank %d's worker has ended", c->rank);
    }
    if (any)
        channels_changed(service);
}
