/* The session's conversation with an agent that follows a script. A plain executable, so that it
 * runs under the thread sanitizer.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <worker/error.h>

#include "common/env/clock_os.h"
#include "common/env/env.h"
#include "common/loop/loop.h"
#include "common/rpc/call.h"
#include "common/rpc/server.h"
#include "libworker/checkpoint/write.h"
#include "libworker/session/session.h"
#include "proto/worker.pb-c.h"
#include "tests/lib/check.h"
#include "tests/lib/tmpdir.h"

enum { WAIT_MS = 300000, GRACE_MS = 400000, RANKS = 2 };

struct hub {
    struct tmpdir dir;
    char url[320];
    struct env env;
    struct loop *loop;
    struct rpc_server *server;
    pthread_t thread;

    pthread_mutex_t lock;
    uint64_t generation;   /* told by Hello and Watch */
    bool membership_ready; /* Joins of `generation` are answered */
    bool stop;
    bool stop_by_join; /* Watch does not tell */
    bool refuse_commit;
    uint32_t leave_ms; /* told with a newer generation */
    const char *prune[3];
    uint64_t watch, join; /* parked calls */
    /* What was heard. */
    int hellos, progresses, joins, losses;
    uint64_t step, total_steps, lost_generation;
    size_t metrics;
    uint32_t lost[4];
    size_t n_lost;
    uint32_t waited_ms, waits_for, waits_for_all;
    char operation[64];
    char token[64];
    Muster__CommitCheckpointRequest__Phase phase;
    char path[256];
};

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

static void hub_start(struct hub *hub, uint64_t generation)
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

static void hub_end(struct hub *hub)
{
    loop_stop(hub->loop);
    pthread_join(hub->thread, NULL);
    rpc_server_free(hub->server);
    env_os_fini(&hub->env);
    loop_free(hub->loop);
    tmpdir_remove(&hub->dir);
}

static void change(struct hub *hub, uint64_t generation, bool ready, bool stop)
{
    pthread_mutex_lock(&hub->lock);
    hub->generation = generation;
    hub->membership_ready = ready;
    hub->stop = stop;
    pthread_mutex_unlock(&hub->lock);
    loop_post(hub->loop, settle, hub);
}

static struct session *session_to(const struct hub *hub)
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

#define EVENTUALLY(hub, condition)                                                                 \
    do {                                                                                           \
        bool holds = false;                                                                        \
        for (int waited = 0; waited < WAIT_MS && !holds; waited++) {                               \
            pthread_mutex_lock(&(hub)->lock);                                                      \
            holds = (condition);                                                                   \
            pthread_mutex_unlock(&(hub)->lock);                                                    \
            if (!holds)                                                                            \
                usleep(1000);                                                                      \
        }                                                                                          \
        CHECK(holds);                                                                              \
    } while (0)

/* What the hub's thread reads or writes too. */
#define LOCKED(hub, statement)                                                                     \
    do {                                                                                           \
        pthread_mutex_lock(&(hub)->lock);                                                          \
        statement;                                                                                 \
        pthread_mutex_unlock(&(hub)->lock);                                                        \
    } while (0)

struct joining {
    struct session *session;
    uint64_t above;
    struct session_group group;
    int code;
    pthread_t thread;
};

static void *join_thread(void *arg)
{
    struct joining *joining = arg;
    joining->code = joining->session->ops->join(joining->session, "tcp://b#2", joining->above,
                                                &joining->group, NULL);
    return NULL;
}

static void join_start(struct joining *joining, struct session *session, uint64_t above)
{
    *joining = (struct joining){.session = session, .above = above};
    CHECK(pthread_create(&joining->thread, NULL, join_thread, joining) == 0);
}

static void a_member_waits_until_the_generation_is_complete(void)
{
    struct hub hub;
    struct joining joining;
    hub_start(&hub, 5);
    struct session *session = session_to(&hub);
    join_start(&joining, session, 0);
    EVENTUALLY(&hub, hub.join != 0);
    change(&hub, 5, true, false);
    pthread_join(joining.thread, NULL);
    CHECK(joining.code == 0);
    CHECK(joining.group.generation == 5 && joining.group.rank == 1 && joining.group.world == 2);
    CHECK(strcmp(joining.group.endpoint_list[0], "tcp://a#1") == 0 && joining.group.hosts[1] == 7);
    CHECK(joining.group.secret[2] == 3);
    CHECK(strcmp(joining.group.resume_from, "/c/step-00000010") == 0);
    session_group_fini(&joining.group);
    /* From now on it speaks with the token of this generation. */
    session->ops->progress(session, 3, 10);
    EVENTUALLY(&hub, hub.step == 3 && hub.total_steps == 10);
    EVENTUALLY(&hub, strcmp(hub.token, "next-token") == 0);
    session->ops->free(session);
    hub_end(&hub);
}

static void a_superseded_generation_is_left_for_the_newer_one(void)
{
    struct hub hub;
    struct joining joining;
    hub_start(&hub, 5);
    struct session *session = session_to(&hub);
    join_start(&joining, session, 0);
    EVENTUALLY(&hub, hub.join != 0);
    change(&hub, 6, true, false);
    pthread_join(joining.thread, NULL);
    CHECK(joining.code == 0 && joining.group.generation == 6);
    LOCKED(&hub, CHECK(hub.joins >= 2));
    session_group_fini(&joining.group);
    session->ops->free(session);
    hub_end(&hub);
}

struct aborted {
    pthread_mutex_t lock;
    uint64_t generation;
};

static void note_abort(void *arg, uint64_t generation)
{
    struct aborted *aborted = arg;
    pthread_mutex_lock(&aborted->lock);
    aborted->generation = generation;
    pthread_mutex_unlock(&aborted->lock);
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Returns after how long. */
static int64_t stay_behind(uint32_t leave_ms)
{
    struct hub hub;
    struct joining joining;
    struct aborted aborted = {.lock = PTHREAD_MUTEX_INITIALIZER};
    hub_start(&hub, 1);
    LOCKED(&hub, hub.membership_ready = true);
    LOCKED(&hub, hub.leave_ms = leave_ms);
    struct session *session = session_to(&hub);
    session->abort = note_abort;
    session->abort_arg = &aborted;
    join_start(&joining, session, 0);
    pthread_join(joining.thread, NULL);
    CHECK(joining.code == 0);
    session_group_fini(&joining.group);
    CHECK(session->ops->target(session) == 1);
    int64_t since_ms = now_ms();
    change(&hub, 2, false, false);
    EVENTUALLY(&hub, session->ops->target(session) == 2);
    EVENTUALLY(&aborted, aborted.generation == 1);
    int64_t after_ms = now_ms() - since_ms;
    session->ops->free(session);
    hub_end(&hub);
    return after_ms;
}

static void news_are_told_and_who_does_not_leave_is_aborted(void)
{
    CHECK(stay_behind(0) >= SESSION_LEAVE_MS);
}

static void who_leaves_a_complete_gang_has_the_time_that_it_is_told(void)
{
    CHECK(stay_behind(2 * SESSION_LEAVE_MS) >= 2 * SESSION_LEAVE_MS);
}

static void a_stop_ends_waiting(void)
{
    struct hub hub;
    struct joining joining;
    int64_t grace_ms = 0;
    hub_start(&hub, 1);
    LOCKED(&hub, hub.membership_ready = true);
    struct session *session = session_to(&hub);
    join_start(&joining, session, 1); /* for a generation that nobody has announced */
    usleep(50000);
    CHECK(!session->ops->stopping(session, &grace_ms));
    change(&hub, 1, true, true);
    pthread_join(joining.thread, NULL);
    CHECK(joining.code == WK_ESTOPPED);
    CHECK(session->ops->stopping(session, &grace_ms));
    CHECK(grace_ms > 0 && grace_ms <= GRACE_MS);
    session->ops->free(session);
    hub_end(&hub);
}

static void a_stop_that_only_join_tells_is_known_to_the_loop(void)
{
    struct hub hub;
    struct joining joining;
    int64_t grace_ms = 0;
    hub_start(&hub, 1);
    LOCKED(&hub, hub.stop_by_join = true);
    struct session *session = session_to(&hub);
    join_start(&joining, session, 0);
    usleep(50000);
    change(&hub, 1, false, true);
    pthread_join(joining.thread, NULL);
    CHECK(joining.code == WK_ESTOPPED);
    CHECK(session->ops->stopping(session, &grace_ms) && grace_ms > 0);
    session->ops->free(session);
    hub_end(&hub);
}

static bool is_set(void *arg)
{
    return atomic_load((atomic_bool *)arg);
}

/* A signal that did not come through the agent; while no generation is known, and while the others
 * of one have not come. */
static void who_is_told_to_end_by_others_waits_no_longer(void)
{
    for (uint64_t above = 0; above < 2; above++) {
        struct hub hub;
        struct joining joining;
        atomic_bool told = false;
        hub_start(&hub, 1);
        struct session *session = session_to(&hub);
        session->interrupted = is_set;
        session->interrupted_arg = &told;
        join_start(&joining, session, above);
        usleep(50000);
        atomic_store(&told, true);
        pthread_join(joining.thread, NULL);
        CHECK(joining.code == WK_ESTOPPED);
        session->ops->free(session);
        hub_end(&hub);
    }
}

static void metrics_go_in_batches_and_the_last_ones_before_the_end(void)
{
    struct hub hub;
    hub_start(&hub, 1);
    struct session *session = session_to(&hub);
    for (int i = 1; i <= 3000; i++) {
        session->ops->metric(session, i, "loss", 1.0 / i);
        session->ops->progress(session, i, 3000);
    }
    session->ops->free(session);
    EVENTUALLY(&hub, hub.step == 3000 && hub.metrics == 3000);
    LOCKED(&hub, CHECK(hub.progresses < 100));
    hub_end(&hub);
}

static void lost_ranks_are_reported(void)
{
    struct hub hub;
    hub_start(&hub, 3);
    struct session *session = session_to(&hub);
    session->ops->lost(session, 3, (const int[]){0, 2}, 2);
    EVENTUALLY(&hub, hub.lost_generation == 3 && hub.n_lost == 2 && hub.lost[1] == 2);
    session->ops->lost(session, 3, (const int[]){2, 1}, 2);
    EVENTUALLY(&hub, hub.n_lost == 3 && hub.lost[2] == 1);
    session->ops->free(session);
    hub_end(&hub);
}

/* The agent that answered may have died before the coordinator heard of it. */
static void a_loss_is_told_again_until_a_newer_generation_is_known(void)
{
    struct hub hub;
    hub_start(&hub, 3);
    struct session *session = session_to(&hub);
    session->ops->lost(session, 3, (const int[]){1}, 1);
    EVENTUALLY(&hub, hub.losses == 2 && hub.lost_generation == 3 && hub.lost[0] == 1);
    change(&hub, 4, false, false);
    EVENTUALLY(&hub, session->ops->target(session) == 4);
    session->ops->lost(session, 4, (const int[]){0}, 1);
    EVENTUALLY(&hub, hub.lost_generation == 4 && hub.n_lost == 1 && hub.lost[0] == 0);
    session->ops->free(session);
    hub_end(&hub);
}

struct collectives {
    pthread_mutex_t lock;
    struct wk_comm_status status;
};

static void tell_status(void *arg, struct wk_comm_status *ret)
{
    struct collectives *collectives = arg;
    pthread_mutex_lock(&collectives->lock);
    *ret = collectives->status;
    pthread_mutex_unlock(&collectives->lock);
}

static void set_wait(struct collectives *collectives, int64_t waiting_us)
{
    pthread_mutex_lock(&collectives->lock);
    collectives->status.waiting_us = waiting_us;
    pthread_mutex_unlock(&collectives->lock);
}

static void a_long_wait_is_told_until_it_is_over(void)
{
    struct hub hub;
    struct joining joining;
    struct collectives collectives = {.lock = PTHREAD_MUTEX_INITIALIZER,
                                      .status = {.name = "world",
                                                 .operation = "barrier #9",
                                                 .sequence = 9,
                                                 .waiting_count = 20,
                                                 .waiting = {3, 4}}};
    hub_start(&hub, 1);
    LOCKED(&hub, hub.membership_ready = true);
    struct session *session = session_to(&hub);
    session->status = tell_status;
    session->status_arg = &collectives;
    join_start(&joining, session, 0);
    pthread_join(joining.thread, NULL);
    CHECK(joining.code == 0);
    session_group_fini(&joining.group);
    set_wait(&collectives, 2500000);
    EVENTUALLY(&hub, hub.waited_ms == 2500 && hub.waits_for == 3 && hub.waits_for_all == 20);
    LOCKED(&hub, CHECK(strcmp(hub.operation, "barrier #9") == 0));
    set_wait(&collectives, 5500000);
    EVENTUALLY(&hub, hub.waited_ms == 5500);
    set_wait(&collectives, 900000); /* everyday life */
    EVENTUALLY(&hub, hub.waited_ms == 0);
    session->ops->free(session);
    hub_end(&hub);
}

static void commits_are_asked_refused_and_prune(void)
{
    struct hub hub;
    struct error err = {0};
    hub_start(&hub, 3);
    struct session *session = session_to(&hub);
    char old[512], foreign[512], path[512];
    snprintf(old, sizeof(old), "%s/step-00000001", hub.dir.path);
    snprintf(path, sizeof(path), "%s/step-00000002", hub.dir.path);
    snprintf(foreign, sizeof(foreign), "%s/elsewhere/step-00000001", hub.dir.path);
    CHECK(mkdir(tmpdir_path(&hub.dir, "elsewhere"), 0700) == 0);
    CHECK(mkdir(old, 0700) == 0 && mkdir(path, 0700) == 0 && mkdir(foreign, 0700) == 0);
    struct checkpoint_claim claim = {.step = 2, .generation = 3, .world = 1, .path = path};
    LOCKED(&hub, hub.refuse_commit = true);
    CHECK(session->ops->commit(session, false, &claim, &err) == WK_EABORT);
    CHECK(strstr(err.text, "generation is over"));
    LOCKED(&hub, CHECK(hub.phase == MUSTER__COMMIT_CHECKPOINT_REQUEST__PHASE__prepare));
    pthread_mutex_lock(&hub.lock);
    hub.refuse_commit = false;
    hub.prune[0] = old;
    hub.prune[1] = foreign;
    pthread_mutex_unlock(&hub.lock);
    CHECK(session->ops->commit(session, true, &claim, &err) == 0);
    LOCKED(&hub, CHECK(strcmp(hub.path, path) == 0));
    CHECK(access(old, F_OK) != 0 && access(foreign, F_OK) == 0 && access(path, F_OK) == 0);
    session->ops->free(session);
    hub_end(&hub);
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(a_member_waits_until_the_generation_is_complete),
        CHECK_CASE(a_superseded_generation_is_left_for_the_newer_one),
        CHECK_CASE(news_are_told_and_who_does_not_leave_is_aborted),
        CHECK_CASE(who_leaves_a_complete_gang_has_the_time_that_it_is_told),
        CHECK_CASE(a_stop_ends_waiting),
        CHECK_CASE(a_stop_that_only_join_tells_is_known_to_the_loop),
        CHECK_CASE(who_is_told_to_end_by_others_waits_no_longer),
        CHECK_CASE(metrics_go_in_batches_and_the_last_ones_before_the_end),
        CHECK_CASE(lost_ranks_are_reported),
        CHECK_CASE(a_loss_is_told_again_until_a_newer_generation_is_known),
        CHECK_CASE(a_long_wait_is_told_until_it_is_over),
        CHECK_CASE(commits_are_asked_refused_and_prune),
        {0},
    };
    return check_all(cases, argc, argv);
}
