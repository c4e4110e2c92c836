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

#include "libworker/checkpoint/write.h"
#include "tests/unit/libworker/session_hub.h"

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
    struct session *session = hub_session(&hub);
    join_start(&joining, session, 0);
    EVENTUALLY(&hub, hub.join != 0);
    hub_change(&hub, 5, true, false);
    pthread_join(joining.thread, NULL);
    CHECK(joining.code == 0);
    CHECK(joining.group.generation == 5 && joining.group.rank == 1 && joining.group.world == 2);
    CHECK(strcmp(joining.group.endpoint_list[0], "tcp://a#1") == 0 && joining.group.hosts[1] == 7);
    CHECK(joining.group.secret[2] == 3);
    CHECK(strcmp(joining.group.resume_from, "/c/step-00000010") == 0);
    session_group_fini(&joining.group);
    /* From now on it speaks with the token of this generation. */
    session->ops->progress(session, &(struct session_step){.step = 3, .total_steps = 10});
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
    struct session *session = hub_session(&hub);
    join_start(&joining, session, 0);
    EVENTUALLY(&hub, hub.join != 0);
    hub_change(&hub, 6, true, false);
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
    struct session *session = hub_session(&hub);
    session->abort = note_abort;
    session->abort_arg = &aborted;
    join_start(&joining, session, 0);
    pthread_join(joining.thread, NULL);
    CHECK(joining.code == 0);
    session_group_fini(&joining.group);
    CHECK(session->ops->target(session) == 1);
    int64_t since_ms = now_ms();
    hub_change(&hub, 2, false, false);
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
    char why[SESSION_WHY_MAX + 1] = "";
    int64_t grace_ms = 0;
    hub_start(&hub, 1);
    LOCKED(&hub, hub.membership_ready = true);
    struct session *session = hub_session(&hub);
    join_start(&joining, session, 1); /* for a generation that nobody has announced */
    usleep(50000);
    CHECK(!session->ops->stopping(session, &grace_ms));
    hub_change(&hub, 1, true, true);
    pthread_join(joining.thread, NULL);
    CHECK(joining.code == WK_ESTOPPED);
    CHECK(session->ops->stopping(session, &grace_ms));
    CHECK(grace_ms > 0 && grace_ms <= GRACE_MS);
    session->ops->why(session, why);
    CHECK(strcmp(why, "out of time") == 0);
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
    struct session *session = hub_session(&hub);
    join_start(&joining, session, 0);
    usleep(50000);
    hub_change(&hub, 1, false, true);
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
        struct session *session = hub_session(&hub);
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
    struct session *session = hub_session(&hub);
    for (int i = 1; i <= 3000; i++) {
        session->ops->metric(session, i, "loss", 1.0 / i);
        session->ops->progress(session, &(struct session_step){.step = i, .total_steps = 3000});
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
    struct session *session = hub_session(&hub);
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
    struct session *session = hub_session(&hub);
    session->ops->lost(session, 3, (const int[]){1}, 1);
    EVENTUALLY(&hub, hub.losses == 2 && hub.lost_generation == 3 && hub.lost[0] == 1);
    hub_change(&hub, 4, false, false);
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
    struct session *session = hub_session(&hub);
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
    struct session *session = hub_session(&hub);
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
