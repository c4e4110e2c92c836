/* The session with a Muster agent: WorkerHub over MUSTER_WORKER_SOCKET (proto/worker.proto).
 *
 * A Watch is always in flight: it returns newer generations and stop requests. Progress and metrics
 * wait until a heartbeat is due and are sent together. The agent may die and return meanwhile.
 * Everything except a refusal is retried, and training continues without it.
 *
 * The training thread and the saver's thread call the slots, the loop's thread makes the calls;
 * shared data is under `lock`.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <worker/error.h>

#include "common/base/str.h"
#include "libworker/checkpoint/list.h"
#include "libworker/checkpoint/write.h"
#include "libworker/session/session_rpc.h"
#include "proto/worker.pb-c.h"

enum {
    HELLO_TIMEOUT_MS = 30000,
    POLL_TIMEOUT_MS = 30000,   /* of Watch */
    JOIN_TIMEOUT_MS = 1000,    /* between questions whether the process is to end */
    LOOK_MS = 200,             /* the same, while no generation is known */
    COMMIT_TIMEOUT_MS = 10000, /* the caller retries */
    BEAT_DEFAULT_MS = 1000,
    STOP_GRACE_MS = 10000, /* for a stop without a grace time */
};

static struct session_rpc *of(struct session *session)
{
    return (struct session_rpc *)session;
}

/* ---- Watch, on the loop's thread ---- */

static void watch(void *arg);

static void leave_overdue(void *arg)
{
    struct session_rpc *s = arg;
    (void)pthread_mutex_lock(&s->lock);
    bool still = s->generation == s->leaving && s->target > s->generation;
    (void)pthread_mutex_unlock(&s->lock);
    if (still && s->base.abort)
        s->base.abort(s->base.abort_arg, s->leaving);
}

static void watch_later(struct session_rpc *s, int64_t delay_ms)
{
    loop_timer_set(s->hub.loop, &s->watch_timer, loop_now_ms(s->hub.loop) + delay_ms, watch, s);
}

static void take_news(struct session_rpc *s, const Muster__WorkerWatchAnswer *answer)
{
    (void)pthread_mutex_lock(&s->lock);
    if (answer->stop) {
        int64_t stop_at_ms = session_wall_ms() + answer->grace_ms;
        if (!s->stopping || stop_at_ms < s->stop_at_ms)
            s->stop_at_ms = stop_at_ms;
        s->stopping = true;
        (void)snprintf(s->why, sizeof(s->why), "%s", answer->reason);
    }
    bool newer = answer->generation > s->target;
    if (newer)
        s->target = answer->generation;
    uint64_t joined = s->generation;
    (void)pthread_cond_broadcast(&s->changed);
    (void)pthread_mutex_unlock(&s->lock);
    if (newer && joined) {
        int64_t leave_ms = answer->leave_ms ? answer->leave_ms : SESSION_LEAVE_MS;
        s->leaving = joined;
        loop_timer_set(s->hub.loop, &s->leave_timer, loop_now_ms(s->hub.loop) + leave_ms,
                       leave_overdue, s);
    }
}

static void watch_done(void *arg, const struct error *err, const ProtobufCMessage *answer)
{
    struct session_rpc *s = arg;
    if (err->code == E_CANCELLED)
        return;
    if (!err->code)
        take_news(s, (const Muster__WorkerWatchAnswer *)answer);
    (void)pthread_mutex_lock(&s->lock);
    bool stopping = s->stopping;
    (void)pthread_mutex_unlock(&s->lock);
    /* A stopping worker's Watch is answered at once, every time. */
    watch_later(s, err->code || stopping ? SESSION_PAUSE_MS : 0);
}

static void watch(void *arg)
{
    struct session_rpc *s = arg;
    Muster__WorkerWatchRequest request = MUSTER__WORKER_WATCH_REQUEST__INIT;
    struct rpc_options options = {.timeout_ms = POLL_TIMEOUT_MS};
    request.job = s->job;
    request.uid = s->uid;
    (void)pthread_mutex_lock(&s->lock);
    request.generation = s->target > s->generation ? s->target : s->generation;
    (void)pthread_mutex_unlock(&s->lock);
    if (rpc_client_call(s->hub.client, &muster__worker_hub__descriptor, "Watch", &request.base,
                        &options, watch_done, s, NULL))
        watch_later(s, SESSION_PAUSE_MS);
}

/* ---- the slots, on other threads ---- */

static uint64_t slot_target(struct session *session)
{
    struct session_rpc *s = of(session);
    (void)pthread_mutex_lock(&s->lock);
    uint64_t target = s->target;
    (void)pthread_mutex_unlock(&s->lock);
    return target;
}

static bool slot_stopping(struct session *session, int64_t *ret_grace_ms)
{
    struct session_rpc *s = of(session);
    (void)pthread_mutex_lock(&s->lock);
    bool stopping = s->stopping;
    int64_t left_ms = s->stop_at_ms - session_wall_ms();
    (void)pthread_mutex_unlock(&s->lock);
    *ret_grace_ms = left_ms > 0 ? left_ms : 0;
    return stopping;
}

static void slot_why(struct session *session, char ret[SESSION_WHY_MAX + 1])
{
    struct session_rpc *s = of(session);
    (void)pthread_mutex_lock(&s->lock);
    (void)snprintf(ret, SESSION_WHY_MAX + 1, "%s", s->why);
    (void)pthread_mutex_unlock(&s->lock);
}

static bool interrupted(const struct session_rpc *s)
{
    return s->base.interrupted && s->base.interrupted(s->base.interrupted_arg);
}

/* Wait until a generation above `above` is known. */
static int await_target(struct session_rpc *s, uint64_t above, uint64_t *ret, struct error *err)
{
    (void)pthread_mutex_lock(&s->lock);
    while (s->target <= above && !s->stopping && !interrupted(s)) {
        int64_t until_ms = session_wall_ms() + LOOK_MS;
        struct timespec until = {.tv_sec = until_ms / 1000, .tv_nsec = until_ms % 1000 * 1000000};
        (void)pthread_cond_timedwait(&s->changed, &s->lock, &until);
    }
    bool stopping = s->stopping || interrupted(s);
    *ret = s->target;
    (void)pthread_mutex_unlock(&s->lock);
    return stopping ? error_set(err, WK_ESTOPPED, "asked to stop") : 0;
}

static int fill_group(const Muster__WorkerJoinAnswer *answer, struct session_group *ret,
                      struct error *err)
{
    const Muster__Membership *membership = answer->membership;
    if (!membership || membership->n_members != answer->world || answer->rank >= answer->world ||
        answer->secret.len != COMM_SECRET_BYTES)
        return error_set(err, WK_EINTERNAL, "the agent's answer to Join is incomplete");
    int rc = session_group_init(ret, (int)answer->world, err);
    if (rc)
        return rc;
    for (size_t i = 0; i < membership->n_members; i++) {
        const Muster__Member *member = membership->members[i];
        if (member->rank != i ||
            str_copy(ret->endpoints[i], COMM_ENDPOINT_BYTES, member->endpoint)) {
            session_group_fini(ret);
            return error_set(err, WK_EINTERNAL, "the agent's list of members is not usable");
        }
        ret->hosts[i] = (int)member->host;
    }
    ret->generation = answer->generation;
    ret->rank = (int)answer->rank;
    ret->local_rank = (int)answer->local_rank;
    ret->local_world = (int)answer->local_world;
    memcpy(ret->secret, answer->secret.data, COMM_SECRET_BYTES);
    (void)str_copy(ret->resume_from, sizeof(ret->resume_from), answer->resume_from);
    return 0;
}

/* 1: a member now; 0: ask again; else an error. */
static int take_join(struct session_rpc *s, const Muster__WorkerJoinAnswer *answer,
                     struct session_group *ret, struct error *err)
{
    if (answer->stop) {
        /* The loop asks `stopping` next; Watch brings the grace. */
        (void)pthread_mutex_lock(&s->lock);
        if (!s->stopping)
            s->stop_at_ms = session_wall_ms() + STOP_GRACE_MS;
        s->stopping = true;
        (void)pthread_mutex_unlock(&s->lock);
        return error_set(err, WK_ESTOPPED, "asked to stop");
    }
    int rc = answer->ready ? fill_group(answer, ret, err) : 0;
    if (rc)
        return rc;
    (void)pthread_mutex_lock(&s->lock);
    if (answer->generation > s->target)
        s->target = answer->generation;
    if (answer->ready) {
        s->generation = answer->generation;
        s->rank = (int)answer->rank;
    }
    (void)pthread_mutex_unlock(&s->lock);
    if (answer->ready && *answer->token)
        hub_set_token(&s->hub, answer->token);
    return answer->ready;
}

/* True if a retry is useful: the agent may be restarting, or know less than the coordinator. */
static bool passing(int code)
{
    return code == E_UNAVAILABLE || code == E_DEADLINE_EXCEEDED || code == E_FAILED_PRECONDITION ||
           code == E_ABORTED;
}

static int slot_join(struct session *session, const char *endpoint, uint64_t above,
                     struct session_group *ret, struct error *err)
{
    struct session_rpc *s = of(session);
    struct rpc_options options = {.timeout_ms = JOIN_TIMEOUT_MS};
    for (;;) {
        Muster__WorkerJoinRequest request = MUSTER__WORKER_JOIN_REQUEST__INIT;
        ProtobufCMessage *answer = NULL;
        int rc = await_target(s, above, &request.generation, err);
        if (rc)
            return rc;
        request.job = s->job;
        request.uid = s->uid;
        request.endpoint = (char *)endpoint;
        (void)pthread_mutex_lock(&s->lock);
        request.step = (uint64_t)s->step.step;
        (void)pthread_mutex_unlock(&s->lock);
        struct error local = {0};
        rc = hub_call(&s->hub, "Join", &request.base, &options, &answer, &local);
        if (!rc)
            rc = take_join(s, (const Muster__WorkerJoinAnswer *)answer, ret, &local);
        rpc_message_free(answer);
        if (rc > 0)
            return 0;
        if (rc < 0 && !passing(rc)) {
            if (err)
                *err = local;
            (void)error_wrap(err, "joining generation %llu",
                             (unsigned long long)request.generation);
            return rc;
        }
        if (rc < 0)
            usleep(SESSION_PAUSE_MS * 1000);
    }
}

/* Only neighbours of the checkpoint just written can be beyond `keep`. */
static void prune(const Muster__CommitCheckpointAnswer *answer, const char *path)
{
    const char *slash = strrchr(path, '/');
    size_t folder = slash ? (size_t)(slash - path) + 1 : 0;
    for (size_t i = 0; i < answer->n_prune; i++) {
        const char *old = answer->prune[i];
        if (strncmp(old, path, folder) == 0 && !strchr(old + folder, '/') && strcmp(old, path) != 0)
            (void)checkpoint_remove(old, NULL);
    }
}

static int slot_commit(struct session *session, bool done, const struct checkpoint_claim *claim,
                       struct error *err)
{
    struct session_rpc *s = of(session);
    Muster__CommitCheckpointRequest request = MUSTER__COMMIT_CHECKPOINT_REQUEST__INIT;
    Muster__Checkpoint checkpoint = MUSTER__CHECKPOINT__INIT;
    struct rpc_options options = {.timeout_ms = COMMIT_TIMEOUT_MS, .retry = true};
    ProtobufCMessage *answer = NULL;
    request.job = s->job;
    request.uid = s->uid;
    request.phase = done ? MUSTER__COMMIT_CHECKPOINT_REQUEST__PHASE__done
                         : MUSTER__COMMIT_CHECKPOINT_REQUEST__PHASE__prepare;
    request.checkpoint = &checkpoint;
    checkpoint.step = (uint64_t)claim->step;
    checkpoint.path = (char *)claim->path;
    checkpoint.generation = claim->generation;
    checkpoint.wall_ms = session_wall_ms();
    checkpoint.size_bytes = claim->bytes;
    checkpoint.world = (uint32_t)claim->world;
    int rc = hub_call(&s->hub, "CommitCheckpoint", &request.base, &options, &answer, err);
    if (rc) {
        (void)error_wrap(err, "%s", done ? "committing" : "asking to commit");
        return rc;
    }
    if (done)
        prune((const Muster__CommitCheckpointAnswer *)answer, claim->path);
    rpc_message_free(answer);
    return 0;
}

static void free_session(struct session_rpc *s)
{
    hub_close(&s->hub);
    (void)pthread_cond_destroy(&s->changed);
    (void)pthread_mutex_destroy(&s->lock);
    free(s->metrics);
    free(s->job);
    free(s);
}

static void slot_free(struct session *session)
{
    struct session_rpc *s = of(session);
    session_flush(s);
    free_session(s);
}

static const struct session_ops ops = {slot_join,        slot_target,    slot_stopping,
                                       session_progress, session_metric, session_lost,
                                       slot_commit,      slot_free,      slot_why};

static int hello(struct session_rpc *s, struct error *err)
{
    Muster__WorkerHelloRequest request = MUSTER__WORKER_HELLO_REQUEST__INIT;
    struct rpc_options options = {.timeout_ms = HELLO_TIMEOUT_MS, .retry = true};
    ProtobufCMessage *message = NULL;
    request.job = s->job;
    request.uid = s->uid;
    request.pid = getpid();
    request.version = (char *)"0.1.0";
    int rc = hub_call(&s->hub, "Hello", &request.base, &options, &message, err);
    if (rc)
        return rc;
    const Muster__WorkerHelloAnswer *answer = (const Muster__WorkerHelloAnswer *)message;
    (void)pthread_mutex_lock(&s->lock);
    s->target = answer->generation;
    (void)pthread_mutex_unlock(&s->lock);
    s->beat_ms = answer->beat_ms ? answer->beat_ms : BEAT_DEFAULT_MS;
    rpc_message_free(message);
    loop_post(s->hub.loop, watch, s);
    loop_post(s->hub.loop, session_look, s);
    return 0;
}

int session_open(const struct session_address *address, struct session **ret, struct error *err)
{
    char url[NET_URL_MAX];
    if (str_printf(url, sizeof(url), "%s%s", *address->url == '/' ? "ipc://" : "", address->url))
        return error_set(err, WK_EINVAL, "MUSTER_WORKER_SOCKET is too long");
    struct session_rpc *s = calloc(1, sizeof(*s));
    if (!s)
        return error_set(err, WK_ENOMEM, "no memory for a session");
    s->base.ops = &ops;
    s->uid = address->uid;
    s->job = strdup(address->job);
    s->metrics = calloc(SESSION_METRICS_MAX, sizeof(*s->metrics));
    (void)pthread_mutex_init(&s->lock, NULL);
    (void)pthread_cond_init(&s->changed, NULL);
    int rc = s->job && s->metrics ? 0 : error_set(err, WK_ENOMEM, "no memory for a session");
    if (!rc)
        rc = hub_open(&s->hub, url, address->token, err);
    if (!rc)
        rc = hello(s, err);
    if (rc) {
        free_session(s);
        (void)error_wrap(err, "session with the agent at %s", url);
        return rc;
    }
    *ret = &s->base;
    return 0;
}
