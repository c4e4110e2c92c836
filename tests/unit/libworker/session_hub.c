#include "tests/unit/libworker/session_hub.h"

#include <stdio.h>
#include <string.h>

#include "common/env/clock_os.h"
#include "common/rpc/call.h"
#include "common/rpc/server.h"

enum { RANKS = 2 };

static void note_token(struct hub *hub, struct rpc_call *call)
{
    snprintf(hub->token, sizeof(hub->token), "%s", rpc_call_token(call));
}

static void on_hello(void *arg, struct rpc_call *call)
{
    struct hub *hub = arg;
    Muster__WorkerHelloAnswer answer = MUSTER__WORKER_HELLO_ANSWER__INIT;
    pthread_mutex_lock(&hub->lock);
    hub->hellos++;
    answer.generation = hub->generation;
    answer.beat_ms = 50;
    pthread_mutex_unlock(&hub->lock);
    rpc_call_answer(call, &answer.base);
}

/* Under lock, on the loop's thread. */
static void settle_watch(struct hub *hub)
{
    struct rpc_call *call = hub->watch ? rpc_server_find(hub->server, hub->watch) : NULL;
    if (!call)
        return;
    const Muster__WorkerWatchRequest *request =
        (const Muster__WorkerWatchRequest *)rpc_call_request(call);
    if (request->generation >= hub->generation && (!hub->stop || hub->stop_by_join))
        return;
    Muster__WorkerWatchAnswer answer = MUSTER__WORKER_WATCH_ANSWER__INIT;
    answer.generation = hub->generation;
    answer.stop = hub->stop && !hub->stop_by_join;
    answer.grace_ms = GRACE_MS;
    answer.leave_ms = hub->leave_ms;
    if (answer.stop)
        answer.reason = (char *)(uintptr_t) "out of time";
    hub->watch = 0;
    rpc_call_answer(call, &answer.base);
}

static void answer_ready(struct hub *hub, struct rpc_call *call)
{
    Muster__WorkerJoinAnswer answer = MUSTER__WORKER_JOIN_ANSWER__INIT;
    Muster__Membership membership = MUSTER__MEMBERSHIP__INIT;
    Muster__Member members[RANKS], *list[RANKS];
    uint8_t secret[COMM_SECRET_BYTES] = {1, 2, 3};
    for (uint32_t i = 0; i < RANKS; i++) {
        muster__member__init(list[i] = &members[i]);
        members[i].rank = i;
        members[i].host = i * 7;
        members[i].endpoint = i ? (char *)"tcp://b#2" : (char *)"tcp://a#1";
    }
    membership.n_members = RANKS;
    membership.members = list;
    answer.ready = true;
    answer.generation = hub->generation;
    answer.rank = 1;
    answer.world = RANKS;
    answer.membership = &membership;
    answer.secret.data = secret;
    answer.secret.len = sizeof(secret);
    answer.token = (char *)"next-token";
    answer.resume_from = (char *)"/c/step-00000010";
    rpc_call_answer(call, &answer.base);
}

static void settle_join(struct hub *hub)
{
    struct rpc_call *call = hub->join ? rpc_server_find(hub->server, hub->join) : NULL;
    if (!call)
        return;
    const Muster__WorkerJoinRequest *request =
        (const Muster__WorkerJoinRequest *)rpc_call_request(call);
    if (request->generation == hub->generation && !hub->stop && !hub->membership_ready)
        return;
    hub->join = 0;
    if (request->generation == hub->generation && !hub->stop) {
        answer_ready(hub, call);
        return;
    }
    Muster__WorkerJoinAnswer answer = MUSTER__WORKER_JOIN_ANSWER__INIT;
    answer.generation = hub->generation;
    answer.stop = hub->stop;
    rpc_call_answer(call, &answer.base);
}

static void on_watch(void *arg, struct rpc_call *call)
{
    struct hub *hub = arg;
    pthread_mutex_lock(&hub->lock);
    hub->watch = rpc_call_id(call);
    settle_watch(hub);
    pthread_mutex_unlock(&hub->lock);
}

static void on_join(void *arg, struct rpc_call *call)
{
    struct hub *hub = arg;
    pthread_mutex_lock(&hub->lock);
    hub->joins++;
    hub->join = rpc_call_id(call);
    settle_join(hub);
    pthread_mutex_unlock(&hub->lock);
}

static void on_progress(void *arg, struct rpc_call *call)
{
    struct hub *hub = arg;
    const Muster__WorkerProgressRequest *request =
        (const Muster__WorkerProgressRequest *)rpc_call_request(call);
    Muster__WorkerProgressAnswer answer = MUSTER__WORKER_PROGRESS_ANSWER__INIT;
    pthread_mutex_lock(&hub->lock);
    hub->progresses++;
    hub->step = request->step;
    hub->total_steps = request->total_steps;
    hub->metrics += request->n_metrics;
    const Muster__Wait *wait = request->wait;
    hub->waited_ms = wait ? wait->waited_ms : 0;
    hub->waits_for = wait && wait->n_ranks ? wait->ranks[0] : 0;
    hub->waits_for_all = wait ? wait->ranks_count : 0;
    snprintf(hub->operation, sizeof(hub->operation), "%s", wait ? wait->operation : "");
    note_token(hub, call);
    pthread_mutex_unlock(&hub->lock);
    rpc_call_answer(call, &answer.base);
}

static void on_lost(void *arg, struct rpc_call *call)
{
    struct hub *hub = arg;
    const Muster__WorkerLostPeersRequest *request =
        (const Muster__WorkerLostPeersRequest *)rpc_call_request(call);
    Muster__WorkerLostPeersAnswer answer = MUSTER__WORKER_LOST_PEERS_ANSWER__INIT;
    pthread_mutex_lock(&hub->lock);
    hub->losses++;
    hub->lost_generation = request->generation;
    hub->n_lost = request->n_ranks;
    for (size_t i = 0; i < request->n_ranks && i < 4; i++)
        hub->lost[i] = request->ranks[i];
    pthread_mutex_unlock(&hub->lock);
    rpc_call_answer(call, &answer.base);
}

static void on_commit(void *arg, struct rpc_call *call)
{
    struct hub *hub = arg;
    const Muster__CommitCheckpointRequest *request =
        (const Muster__CommitCheckpointRequest *)rpc_call_request(call);
    Muster__CommitCheckpointAnswer answer = MUSTER__COMMIT_CHECKPOINT_ANSWER__INIT;
    struct error refusal = {0};
    pthread_mutex_lock(&hub->lock);
    hub->phase = request->phase;
    snprintf(hub->path, sizeof(hub->path), "%s", request->checkpoint->path);
    bool refuse = hub->refuse_commit;
    answer.prune = (char **)hub->prune;
    while (answer.n_prune < 3 && hub->prune[answer.n_prune])
        answer.n_prune++;
    pthread_mutex_unlock(&hub->lock);
    if (refuse) {
        (void)error_set(&refusal, E_ABORTED, "generation is over");
        rpc_call_fail(call, &refusal);
    } else {
        rpc_call_answer(call, &answer.base);
    }
}

static void settle(void *arg)
{
    struct hub *hub = arg;
    pthread_mutex_lock(&hub->lock);
    settle_watch(hub);
    settle_join(hub);
    pthread_mutex_unlock(&hub->lock);
}

static void *run(void *arg)
{
    loop_run(((struct hub *)arg)->loop);
    return NULL;
}

void hub_start(struct hub *hub, uint64_t generation)
{
    static const struct {
        const char *method;
        rpc_handler fn;
    } methods[] = {{"Hello", on_hello},    {"Watch", on_watch},
                   {"Join", on_join},      {"Progress", on_progress},
                   {"LostPeers", on_lost}, {"CommitCheckpoint", on_commit}};
    *hub = (struct hub){.dir = tmpdir_make(), .generation = generation};
    snprintf(hub->url, sizeof(hub->url), "ipc://%s/hub.sock", hub->dir.path);
    pthread_mutex_init(&hub->lock, NULL);
    CHECK(loop_new(clock_os(), &hub->loop, NULL) == 0);
    CHECK(env_os_init(&hub->env, hub->loop, NULL) == 0);
    CHECK(rpc_server_new(&hub->env, hub->loop, hub->url, 16, &hub->server, NULL) == 0);
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
        CHECK(rpc_server_add(hub->server, &muster__worker_hub__descriptor, methods[i].method,
                             methods[i].fn, hub, NULL) == 0);
    CHECK(pthread_create(&hub->thread, NULL, run, hub) == 0);
}

void hub_end(struct hub *hub)
{
    loop_stop(hub->loop);
    pthread_join(hub->thread, NULL);
    rpc_server_free(hub->server);
    env_os_fini(&hub->env);
    loop_free(hub->loop);
    tmpdir_remove(&hub->dir);
}

void hub_change(struct hub *hub, uint64_t generation, bool ready, bool stop)
{
    pthread_mutex_lock(&hub->lock);
    hub->generation = generation;
    hub->membership_ready = ready;
    hub->stop = stop;
    pthread_mutex_unlock(&hub->lock);
    loop_post(hub->loop, settle, hub);
}

struct session *hub_session(const struct hub *hub)
{
    struct session *session;
    struct error err = {0};
    struct session_address address = {
        .url = hub->url, .token = "first-token", .job = "j1", .uid = 4};
    if (session_open(&address, &session, &err))
        fprintf(stderr, "%s\n", err.text);
    CHECK(err.code == 0);
    return session;
}
