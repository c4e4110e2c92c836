/* Stories on virtual time: events in, the trace of actions out. A trace is one word per action:
 *   register report start(j/1@2) term(j/1) kill(j/1) remember(j/1:2) forget(j/1) wake(1200) leave
 *   hello#5(g2) join#5(ready g2) join#5(wait g2) join#5(go g3) join#5(stop) watch#6(g3)
 * watch#6(stop) progress#7 lost#8 refuse#9(NOT_FOUND) Wakes are left out unless asked for. */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include "agent/core/step.h"
#include "common/base/buf.h"
#include "common/base/str.h"

struct story {
    struct agent_core *core;
    struct agent_actions actions;
    int64_t now_ms;
    bool wakes;
    struct buf trace;
};

static struct story story_begin(void)
{
    struct story s = {.core = agent_core_new(), .now_ms = 1000};
    return s;
}

static void story_end(struct story *s)
{
    agent_core_free(s->core);
    agent_actions_fini(&s->actions);
    buf_fini(&s->trace);
}

static void write_answer(struct buf *out, const struct agent_action *a)
{
    unsigned long long request = a->request, generation = a->answer.generation;
    switch (a->answer.kind) {
    case AGENT_ANSWER_HELLO:
        buf_printf(out, "hello#%llu(g%llu)", request, generation);
        break;
    case AGENT_ANSWER_JOIN:
        if (a->answer.stop)
            buf_printf(out, "join#%llu(stop)", request);
        else if (a->answer.ready)
            buf_printf(out, "join#%llu(ready g%llu)", request, generation);
        else
            buf_printf(out, "join#%llu(go g%llu)", request, generation);
        break;
    case AGENT_ANSWER_WATCH:
        if (a->answer.stop)
            buf_printf(out, "watch#%llu(stop)", request);
        else
            buf_printf(out, "watch#%llu(g%llu)", request, generation);
        break;
    case AGENT_ANSWER_PROGRESS:
        buf_printf(out, "progress#%llu", request);
        break;
    case AGENT_ANSWER_LOST_PEERS:
        buf_printf(out, "lost#%llu", request);
        break;
    }
}

static void write_action(struct story *s, const struct agent_action *a)
{
    struct buf *out = &s->trace;
    unsigned long long uid = a->key.uid;
    if (a->kind == AGENT_ACTION_WAKE_AT && !s->wakes)
        return;
    if (out->size)
        buf_char(out, ' ');
    switch (a->kind) {
    case AGENT_ACTION_REGISTER:
        buf_str(out, "register");
        break;
    case AGENT_ACTION_REPORT:
        buf_str(out, "report");
        break;
    case AGENT_ACTION_START:
        buf_printf(out, "start(%s/%llu@%llu)", a->key.job, uid,
                   (unsigned long long)a->assignment->generation);
        break;
    case AGENT_ACTION_TERMINATE:
        buf_printf(out, "term(%s/%llu)", a->key.job, uid);
        break;
    case AGENT_ACTION_KILL:
        buf_printf(out, "kill(%s/%llu)", a->key.job, uid);
        break;
    case AGENT_ACTION_REMEMBER:
        buf_printf(out, "remember(%s/%llu:%llu)", a->key.job, uid,
                   (unsigned long long)a->memory.generation);
        break;
    case AGENT_ACTION_FORGET:
        buf_printf(out, "forget(%s/%llu)", a->key.job, uid);
        break;
    case AGENT_ACTION_ANSWER:
        write_answer(out, a);
        break;
    case AGENT_ACTION_REFUSE:
        buf_printf(out, "refuse#%llu(%s)", (unsigned long long)a->request,
                   error_name(a->error->code));
        break;
    case AGENT_ACTION_WAKE_AT:
        buf_printf(out, "wake(%lld)", (long long)a->at_ms);
        break;
    case AGENT_ACTION_LEAVE:
        buf_str(out, "leave");
        break;
    }
}

/* Let it happen; returns the trace of what follows. */
static const char *happen(struct story *s, struct agent_event event)
{
    event.now_ms = s->now_ms;
    agent_actions_clear(&s->actions);
    buf_clear(&s->trace);
    agent_step(s->core, &event, &s->actions);
    for (int i = 0; i < s->actions.count; i++)
        write_action(s, &s->actions.items[i]);
    return buf_cstr(&s->trace);
}

#define KEY(j, u)        ((struct worker_key){.job = j, .uid = u})
#define EVENT(k, ...)    ((struct agent_event){.kind = AGENT_EVENT_##k, __VA_ARGS__})
#define ABOUT(k, u, ...) EVENT(k, .key = KEY("j", u), __VA_ARGS__)
#define EXPECT(s, event, trace)                                                                    \
    do {                                                                                           \
        const char *got_ = happen(&(s), event);                                                    \
        cr_expect_str_eq(got_, trace, "line %d: %s", __LINE__, got_);                              \
    } while (0)

struct want { /* an assignment in short */
    uint64_t uid, generation;
    bool formed, stop;
    uint32_t grace_ms, leave_ms;
    uint32_t slot, slots;
};

static struct assignment *assignment_of(const struct want *want)
{
    static const struct membership_member self = {.rank = 0, .endpoint = "e", .node = "n"};
    struct assignment *a = assignment_new();
    a->key = KEY("j", want->uid);
    a->generation = want->generation;
    a->stop = want->stop;
    a->grace_ms = want->grace_ms;
    a->leave_ms = want->leave_ms;
    a->world = 1;
    a->slot = want->slot;
    a->slots = want->slots;
    a->token = arena_printf(&a->arena, "token-%llu-%llu", (unsigned long long)want->uid,
                            (unsigned long long)want->generation);
    if (want->formed) {
        a->members = &self;
        a->members_count = 1;
    }
    return a;
}

static const char *desire(struct story *s, const struct want *wants, int count)
{
    struct assignment *list[8];
    for (int i = 0; i < count; i++)
        list[i] = assignment_of(&wants[i]);
    const char *trace = happen(s, EVENT(DESIRED, .desired = {.assignments = list, .count = count}));
    for (int i = 0; i < count; i++)
        assignment_release(list[i]);
    return trace;
}
#define DESIRE(s, trace, ...)                                                                      \
    do {                                                                                           \
        const struct want wants_[] = {__VA_ARGS__};                                                \
        const char *got_ = desire(&(s), wants_, sizeof(wants_) / sizeof(wants_[0]));               \
        cr_expect_str_eq(got_, trace, "line %d: %s", __LINE__, got_);                              \
    } while (0)
#define DESIRE_NOTHING(s, trace) EXPECT(s, EVENT(DESIRED, .desired = {.count = 0}), trace)

static const struct worker_exit exit_0 = {.code = 0, .text = "exited with code 0"};

static const struct agent_worker *worker(struct story *s, uint64_t uid)
{
    struct worker_key key = KEY("j", uid);
    return agent_core_find(s->core, &key);
}

/* A worker of generation 1 that runs, and has joined. */
static void joined(struct story *s)
{
    happen(s, EVENT(REGISTERED));
    desire(s, &(struct want){.uid = 1, .generation = 1}, 1);
    happen(s, ABOUT(STARTED, 1, .started = {.pid = 42}));
    happen(s, ABOUT(HELLO, 1, .request = 1));
    happen(s, ABOUT(JOIN, 1, .request = 2, .deadline_ms = 60000,
                    .join = {.generation = 1, .endpoint = "e"}));
    desire(s, &(struct want){.uid = 1, .generation = 1, .formed = true}, 1);
    cr_assert_eq(worker(s, 1)->state, AGENT_WORKER_JOINED);
}

Test(agent_step, a_worker_from_assignment_to_end)
{
    struct story s = story_begin();
    EXPECT(s, EVENT(UNREGISTERED), "register");
    EXPECT(s, EVENT(REGISTERED), "report");
    DESIRE(s, "start(j/1@1) remember(j/1:0)", {.uid = 1, .generation = 1});
    DESIRE(s, "", {.uid = 1, .generation = 1});
    EXPECT(s, ABOUT(STARTED, 1, .started = {.pid = 42}), "report");
    EXPECT(s, ABOUT(HELLO, 1, .request = 5), "remember(j/1:0) report hello#5(g1)");
    EXPECT(s,
           ABOUT(JOIN, 1, .request = 6, .deadline_ms = 60000,
                 .join = {.generation = 1, .endpoint = "e"}),
           "report");
    cr_expect_eq(worker(&s, 1)->joining, 1);
    DESIRE(s, "remember(j/1:1) report join#6(ready g1)",
           {.uid = 1, .generation = 1, .formed = true});
    cr_expect_eq(worker(&s, 1)->joining, 0);
    EXPECT(s,
           ABOUT(PROGRESS, 1, .request = 7,
                 .progress = {.generation = 1, .step = 10, .total_steps = 100}),
           "progress#7");
    cr_expect_eq(worker(&s, 1)->memory.step, 10);
    struct worker_wait wait = {.communicator = "world", .sequence = 7, .waited_ms = 1200};
    EXPECT(s,
           ABOUT(PROGRESS, 1, .request = 7,
                 .progress = {.generation = 1, .step = 10, .total_steps = 100, .wait = &wait}),
           "progress#7");
    cr_expect_eq(worker(&s, 1)->wait.sequence, 7);
    EXPECT(s,
           ABOUT(PROGRESS, 1, .request = 7,
                 .progress = {.generation = 1, .step = 11, .total_steps = 100}),
           "progress#7");
    cr_expect_eq(worker(&s, 1)->wait.waited_ms, 0, "it goes on");
    EXPECT(s, ABOUT(EXITED, 1, .exit = &exit_0), "report");
    DESIRE(s, "", {.uid = 1, .generation = 1, .formed = true});
    DESIRE_NOTHING(s, "");
    EXPECT(s, ABOUT(SHIPPED, 1), "forget(j/1)");
    cr_expect_null(worker(&s, 1));
    story_end(&s);
}

Test(agent_step, a_forgotten_worker_is_never_started_again)
{
    struct story s = story_begin();
    joined(&s);
    happen(&s, ABOUT(EXITED, 1, .exit = &exit_0));
    happen(&s, ABOUT(SHIPPED, 1));
    DESIRE_NOTHING(s, "forget(j/1)");
    DESIRE(s, "", {.uid = 1, .generation = 1});
    DESIRE(s, "start(j/2@2) remember(j/2:0)", {.uid = 2, .generation = 2});
    story_end(&s);
}

/* The ring of those that are forgotten is as long as it says. */
Test(agent_step, the_last_thousand_are_remembered_as_forgotten)
{
    struct story s = story_begin();
    happen(&s, EVENT(REGISTERED));
    for (uint64_t uid = 1; uid <= AGENT_TOMBSTONES_MAX; uid++) {
        DESIRE(s, "report", {.uid = uid, .generation = 1, .stop = true});
        happen(&s, EVENT(DESIRED, .desired = {.count = 0}));
    }
    DESIRE(s, "", {.uid = 1, .generation = 1});
    DESIRE(s, "", {.uid = AGENT_TOMBSTONES_MAX, .generation = 1});
    story_end(&s);
}

Test(agent_step, who_is_gone_is_not_taken_for_another_of_its_job)
{
    struct story s = story_begin();
    happen(&s, EVENT(REGISTERED));
    DESIRE(s, "start(j/2@1) remember(j/2:0)", {.uid = 2, .generation = 1});
    EXPECT(s, ABOUT(EXITED, 1, .exit = &exit_0), "");
    EXPECT(s, ABOUT(HELLO, 1, .request = 3), "refuse#3(NOT_FOUND)");
    cr_expect_eq(worker(&s, 2)->state, AGENT_WORKER_STARTING);
    DESIRE(s, "start(j/1@1) remember(j/1:0)", {.uid = 1, .generation = 1},
           {.uid = 2, .generation = 1});
    story_end(&s);
}

/* Its end may not have been heard of: what a new registration tells must still be there. */
Test(agent_step, nobody_is_forgotten_before_the_coordinator_knows_this_agent)
{
    struct story s = story_begin();
    joined(&s);
    DESIRE_NOTHING(s, "term(j/1) report");
    EXPECT(s, EVENT(UNREGISTERED), "register");
    EXPECT(s, ABOUT(EXITED, 1, .exit = &exit_0), "report");
    EXPECT(s, ABOUT(SHIPPED, 1), "");
    EXPECT(s, EVENT(REGISTERED), "report");
    DESIRE_NOTHING(s, "forget(j/1)");
    story_end(&s);
}

Test(agent_step, output_shipped_in_between_is_not_all_there_is)
{
    struct story s = story_begin();
    joined(&s);
    EXPECT(s, ABOUT(SHIPPED, 1), "");
    EXPECT(s, ABOUT(EXITED, 1, .exit = &exit_0), "report");
    DESIRE_NOTHING(s, "");
    EXPECT(s, ABOUT(SHIPPED, 1), "forget(j/1)");
    story_end(&s);
}

Test(agent_step, who_has_ended_neither_joins_nor_waits)
{
    struct story s = story_begin();
    joined(&s);
    desire(&s, &(struct want){.uid = 1, .generation = 2}, 1);
    struct worker_wait wait = {.communicator = "world", .sequence = 7, .waited_ms = 1200};
    happen(&s, ABOUT(PROGRESS, 1, .request = 7, .progress = {.generation = 1, .wait = &wait}));
    happen(&s, ABOUT(JOIN, 1, .request = 8, .deadline_ms = 60000,
                     .join = {.generation = 2, .endpoint = "e"}));
    cr_assert(worker(&s, 1)->joining == 2 && worker(&s, 1)->wait.waited_ms == 1200);
    EXPECT(s, ABOUT(EXITED, 1, .exit = &exit_0), "refuse#8(CANCELLED) report");
    cr_expect_eq(worker(&s, 1)->joining, 0);
    cr_expect_eq(worker(&s, 1)->wait.waited_ms, 0);
    story_end(&s);
}

Test(agent_step, stop_escalates_until_it_has_ended)
{
    struct story s = story_begin();
    joined(&s);
    s.wakes = true;
    DESIRE(s, "term(j/1) report wake(4000)",
           {.uid = 1, .generation = 1, .stop = true, .grace_ms = 3000});
    s.now_ms = 2000; /* repeats change nothing, and do not prolong */
    DESIRE(s, "wake(4000)", {.uid = 1, .generation = 1, .stop = true, .grace_ms = 3000});
    s.now_ms = 3999;
    EXPECT(s, EVENT(TICK), "wake(4000)");
    s.now_ms = 4000;
    EXPECT(s, EVENT(TICK), "kill(j/1) wake(6000)");
    s.now_ms = 6000;
    EXPECT(s, EVENT(TICK), "kill(j/1) wake(8000)");
    EXPECT(s, ABOUT(EXITED, 1, .exit = &exit_0), "report");
    EXPECT(s, EVENT(TICK), "");
    story_end(&s);
}

Test(agent_step, absence_from_the_desired_state_stops)
{
    struct story s = story_begin();
    joined(&s);
    s.wakes = true;
    DESIRE_NOTHING(s, "term(j/1) report wake(11000)");
    DESIRE(s, "wake(2000)", {.uid = 1, .generation = 1, .stop = true, .grace_ms = 1000});
    story_end(&s);
}

Test(agent_step, stop_before_the_start_is_an_exit)
{
    struct story s = story_begin();
    happen(&s, EVENT(REGISTERED));
    DESIRE(s, "report", {.uid = 1, .generation = 1, .stop = true});
    cr_expect_eq(worker(&s, 1)->state, AGENT_WORKER_EXITED);
    DESIRE_NOTHING(s, "forget(j/1)");
    story_end(&s);
}

/* What the coordinator gave away while this agent stood still: a late answer started the old one.
 */
Test(agent_step, nobody_starts_on_slots_where_another_still_runs)
{
    struct story s = story_begin();
    happen(&s, EVENT(REGISTERED));
    DESIRE(s, "start(j/1@1) remember(j/1:0)", {.uid = 1, .generation = 1, .slot = 2, .slots = 2});
    DESIRE(s, "term(j/1) report start(j/3@2) remember(j/3:0)",
           {.uid = 2, .generation = 2, .slot = 3, .slots = 1},
           {.uid = 3, .generation = 2, .slot = 4, .slots = 1});
    cr_expect(worker(&s, 2)->waits);
    EXPECT(s, EVENT(TICK), "");
    EXPECT(s, ABOUT(EXITED, 1, .exit = &exit_0), "report start(j/2@2) remember(j/2:0)");
    story_end(&s);
}

Test(agent_step, who_waits_for_slots_can_be_stopped)
{
    struct story s = story_begin();
    happen(&s, EVENT(REGISTERED));
    struct worker_found found = {.key = KEY("j", 1), .pid = 42};
    EXPECT(s, EVENT(FOUND, .found = &found), ""); /* nobody knows which slots it has */
    DESIRE(s, "term(j/1) report", {.uid = 2, .generation = 2, .slots = 1});
    DESIRE(s, "report", {.uid = 2, .generation = 2, .slots = 1, .stop = true});
    cr_expect_eq(worker(&s, 2)->state, AGENT_WORKER_EXITED);
    EXPECT(s, ABOUT(EXITED, 1, .exit = &exit_0), "report");
    story_end(&s);
}

Test(agent_step, a_start_that_fails_is_reported_with_its_reason)
{
    struct story s = story_begin();
    happen(&s, EVENT(REGISTERED));
    desire(&s, &(struct want){.uid = 1, .generation = 1}, 1);
    EXPECT(s, ABOUT(START_FAILED, 1, .start_error = "port busy", .start_code = 71), "report");
    cr_expect_eq(worker(&s, 1)->exit.code, 71);
    cr_expect_str_eq(worker(&s, 1)->start_error, "port busy");
    cr_expect_eq(worker(&s, 1)->state, AGENT_WORKER_EXITED);
    DESIRE(s, "", {.uid = 1, .generation = 1});
    DESIRE_NOTHING(s, "forget(j/1)");
    story_end(&s);
}

Test(agent_step, survivors_hear_of_the_new_generation_and_join_it)
{
    struct story s = story_begin();
    joined(&s);
    EXPECT(s, ABOUT(WATCH, 1, .request = 10, .deadline_ms = 60000, .watch = {.generation = 1}), "");
    uint32_t ranks[] = {3, 1, 3};
    EXPECT(s,
           ABOUT(LOST_PEERS, 1, .request = 11,
                 .lost_peers = {.generation = 1, .ranks = ranks, .count = 3}),
           "report lost#11");
    cr_expect_eq(worker(&s, 1)->broken, 1);
    cr_expect_eq(worker(&s, 1)->lost_ranks_count, 2);
    cr_expect_eq(worker(&s, 1)->lost_ranks[0], 1);
    EXPECT(s,
           ABOUT(LOST_PEERS, 1, .request = 12,
                 .lost_peers = {.generation = 1, .ranks = ranks, .count = 3}),
           "lost#12");
    /* nothing of the old generation lets it back in */
    EXPECT(s,
           ABOUT(JOIN, 1, .request = 13, .deadline_ms = 60000,
                 .join = {.generation = 1, .endpoint = "e"}),
           "");
    DESIRE(s, "join#13(go g2) watch#10(g2)", {.uid = 1, .generation = 2});
    EXPECT(s,
           ABOUT(JOIN, 1, .request = 14, .deadline_ms = 60000,
                 .join = {.generation = 2, .endpoint = "f"}),
           "report");
    DESIRE(s, "remember(j/1:2) report join#14(ready g2)",
           {.uid = 1, .generation = 2, .formed = true});
    cr_expect_eq(worker(&s, 1)->broken, 0);
    story_end(&s);
}

Test(agent_step, each_lost_rank_is_reported_once_and_so_many)
{
    struct story s = story_begin();
    uint32_t ranks[AGENT_LOST_RANKS_MAX];
    for (uint32_t i = 0; i < AGENT_LOST_RANKS_MAX; i++)
        ranks[i] = i;
    joined(&s);
    EXPECT(s,
           ABOUT(LOST_PEERS, 1, .request = 5,
                 .lost_peers = {.generation = 1, .ranks = ranks, .count = 1}),
           "report lost#5");
    EXPECT(s,
           ABOUT(LOST_PEERS, 1, .request = 6,
                 .lost_peers = {.generation = 1, .ranks = ranks, .count = AGENT_LOST_RANKS_MAX}),
           "report lost#6");
    uint32_t one_more = AGENT_LOST_RANKS_MAX;
    EXPECT(s,
           ABOUT(LOST_PEERS, 1, .request = 7,
                 .lost_peers = {.generation = 1, .ranks = &one_more, .count = 1}),
           "lost#7");
    cr_expect_eq(worker(&s, 1)->lost_ranks_count, AGENT_LOST_RANKS_MAX);
    story_end(&s);
}

Test(agent_step, a_worker_that_lost_peers_of_no_generation_lost_none)
{
    struct story s = story_begin();
    uint32_t rank = 1;
    desire(&s, &(struct want){.uid = 1, .generation = 1}, 1);
    EXPECT(s,
           ABOUT(LOST_PEERS, 1, .request = 5,
                 .lost_peers = {.generation = 0, .ranks = &rank, .count = 1}),
           "lost#5");
    agent_core_check(s.core);
    cr_expect_eq(worker(&s, 1)->lost_ranks_count, 0);
    story_end(&s);
}

Test(agent_step, what_is_told_of_an_older_generation_changes_nothing)
{
    struct story s = story_begin();
    uint32_t rank = 3;
    struct worker_wait wait = {.communicator = "world", .sequence = 7, .waited_ms = 1200};
    joined(&s);
    happen(&s, ABOUT(PROGRESS, 1, .request = 2, .progress = {.generation = 1, .wait = &wait}));
    desire(&s, &(struct want){.uid = 1, .generation = 2}, 1);
    happen(&s, ABOUT(JOIN, 1, .request = 3, .deadline_ms = 60000,
                     .join = {.generation = 2, .step = 40, .endpoint = "e"}));
    cr_expect_eq(worker(&s, 1)->memory.step, 40, "known before its first step there");
    desire(&s, &(struct want){.uid = 1, .generation = 2, .formed = true}, 1);
    cr_expect_eq(worker(&s, 1)->wait.waited_ms, 0, "what it waited in is over");
    EXPECT(
        s,
        ABOUT(PROGRESS, 1, .request = 4, .progress = {.generation = 1, .step = 12, .wait = &wait}),
        "progress#4");
    cr_expect_eq(worker(&s, 1)->memory.step, 40);
    cr_expect_eq(worker(&s, 1)->wait.waited_ms, 0);
    EXPECT(s,
           ABOUT(LOST_PEERS, 1, .request = 5,
                 .lost_peers = {.generation = 1, .ranks = &rank, .count = 1}),
           "lost#5");
    cr_expect_eq(worker(&s, 1)->broken, 0);
    story_end(&s);
}

Test(agent_step, a_join_from_another_endpoint_is_news)
{
    struct story s = story_begin();
    joined(&s);
    desire(&s, &(struct want){.uid = 1, .generation = 2}, 1);
    EXPECT(s,
           ABOUT(JOIN, 1, .request = 3, .deadline_ms = 60000,
                 .join = {.generation = 2, .endpoint = "e"}),
           "report");
    EXPECT(s,
           ABOUT(JOIN, 1, .request = 4, .deadline_ms = 60000,
                 .join = {.generation = 2, .endpoint = "e"}),
           "refuse#3(ABORTED)");
    EXPECT(s,
           ABOUT(JOIN, 1, .request = 5, .deadline_ms = 60000,
                 .join = {.generation = 2, .endpoint = "f"}),
           "refuse#4(ABORTED) report");
    cr_expect_str_eq(worker(&s, 1)->endpoint, "f");
    story_end(&s);
}

Test(agent_step, a_lost_join_answer_is_repeated)
{
    struct story s = story_begin();
    joined(&s);
    EXPECT(s,
           ABOUT(JOIN, 1, .request = 9, .deadline_ms = 60000,
                 .join = {.generation = 1, .endpoint = "e"}),
           "join#9(ready g1)");
    story_end(&s);
}

Test(agent_step, a_forming_generation_may_itself_be_overtaken)
{
    struct story s = story_begin();
    joined(&s);
    DESIRE(s, "", {.uid = 1, .generation = 2});
    happen(&s, ABOUT(JOIN, 1, .request = 9, .deadline_ms = 60000,
                     .join = {.generation = 2, .endpoint = "e"}));
    DESIRE(s, "join#9(go g3)", {.uid = 1, .generation = 3});
    /* an answer that was overtaken on the way */
    DESIRE(s, "", {.uid = 1, .generation = 2, .formed = true});
    cr_expect_eq(worker(&s, 1)->assignment->generation, 3);
    EXPECT(s,
           ABOUT(JOIN, 1, .request = 10, .deadline_ms = 60000,
                 .join = {.generation = 2, .endpoint = "f"}),
           "join#10(go g3)");
    story_end(&s);
}

Test(agent_step, joining_what_was_never_announced_is_refused)
{
    struct story s = story_begin();
    joined(&s);
    EXPECT(s, ABOUT(JOIN, 1, .request = 9, .join = {.generation = 7, .endpoint = "e"}),
           "refuse#9(FAILED_PRECONDITION)");
    story_end(&s);
}

Test(agent_step, parked_calls_are_answered_before_their_deadline)
{
    struct story s = story_begin();
    joined(&s);
    s.wakes = true;
    EXPECT(s, ABOUT(WATCH, 1, .request = 10, .deadline_ms = 2000, .watch = {.generation = 1}),
           "wake(1800)");
    EXPECT(s, ABOUT(WATCH, 1, .request = 11, .deadline_ms = 3000, .watch = {.generation = 1}),
           "refuse#10(ABORTED) wake(2800)");
    s.now_ms = 2800;
    EXPECT(s, EVENT(TICK), "watch#11(g1)");
    desire(&s, &(struct want){.uid = 1, .generation = 2}, 1);
    EXPECT(s,
           ABOUT(JOIN, 1, .request = 12, .deadline_ms = 4000,
                 .join = {.generation = 2, .endpoint = "e"}),
           "report wake(3800)");
    s.now_ms = 3799;
    EXPECT(s, EVENT(TICK), "wake(3800)");
    s.now_ms = 3800;
    EXPECT(s, EVENT(TICK), "join#12(go g2)");
    story_end(&s);
}

Test(agent_step, stop_is_heard_by_watch_and_join)
{
    struct story s = story_begin();
    joined(&s);
    happen(&s, ABOUT(WATCH, 1, .request = 10, .deadline_ms = 60000, .watch = {.generation = 1}));
    DESIRE(s, "term(j/1) watch#10(stop) report", {.uid = 1, .generation = 1, .stop = true});
    EXPECT(s,
           ABOUT(JOIN, 1, .request = 11, .deadline_ms = 60000,
                 .join = {.generation = 1, .endpoint = "e"}),
           "join#11(stop)");
    story_end(&s);
}

/* The answer to a watch, as the last event led to it. */
static const struct agent_answer *watch_answer(const struct story *s)
{
    for (int i = 0; i < s->actions.count; i++)
        if (s->actions.items[i].kind == AGENT_ACTION_ANSWER &&
            s->actions.items[i].answer.kind == AGENT_ANSWER_WATCH)
            return &s->actions.items[i].answer;
    cr_assert_fail("no watch was answered");
    abort();
}

Test(agent_step, who_is_to_stop_hears_how_long_it_has)
{
    struct story s = story_begin();
    joined(&s);
    happen(&s, ABOUT(WATCH, 1, .request = 10, .deadline_ms = 60000, .watch = {.generation = 1}));
    desire(
        &s,
        &(struct want){.uid = 1, .generation = 1, .stop = true, .grace_ms = 3000, .leave_ms = 700},
        1);
    cr_expect_eq(watch_answer(&s)->grace_ms, 3000);
    cr_expect_eq(watch_answer(&s)->leave_ms, 700);
    happen(&s, EVENT(DESIRED, .desired = {.count = 0}));
    desire(&s, &(struct want){.uid = 2, .generation = 1}, 1);
    happen(&s, ABOUT(STARTED, 2, .started = {.pid = 43}));
    happen(&s, ABOUT(WATCH, 2, .request = 11, .deadline_ms = 60000, .watch = {.generation = 1}));
    DESIRE_NOTHING(s, "term(j/2) watch#11(stop) report");
    cr_expect_eq(watch_answer(&s)->grace_ms, AGENT_GRACE_DEFAULT_MS);
    story_end(&s);
}

Test(agent_step, calls_of_a_worker_that_ended_are_refused)
{
    struct story s = story_begin();
    joined(&s);
    happen(&s, ABOUT(WATCH, 1, .request = 10, .deadline_ms = 60000, .watch = {.generation = 1}));
    EXPECT(s, ABOUT(EXITED, 1, .exit = &exit_0), "refuse#10(CANCELLED) report");
    EXPECT(s, ABOUT(PROGRESS, 1, .request = 11), "refuse#11(NOT_FOUND)");
    EXPECT(s, ABOUT(PROGRESS, 9, .request = 12), "refuse#12(NOT_FOUND)");
    EXPECT(s, ABOUT(EXITED, 1, .exit = &exit_0), "");
    story_end(&s);
}

Test(agent_step, a_found_worker_goes_on_until_the_coordinator_speaks)
{
    struct story s = story_begin();
    struct worker_found found = {
        .key = KEY("j", 1), .pid = 42, .memory = {.aware = true, .generation = 4}};
    strcpy(found.memory.tokens[0], "token-1-4");
    EXPECT(s, EVENT(FOUND, .found = &found), "");
    cr_expect_eq(worker(&s, 1)->state, AGENT_WORKER_JOINED);
    cr_expect(worker(&s, 1)->memory.aware);
    EXPECT(s, ABOUT(WATCH, 1, .request = 5, .deadline_ms = 60000, .watch = {.generation = 4}), "");
    EXPECT(s, EVENT(REGISTERED), "report");
    EXPECT(s, EVENT(TICK), "");
    DESIRE(s, "watch#5(g5)", {.uid = 1, .generation = 5});
    story_end(&s);
}

Test(agent_step, a_found_worker_that_nobody_wants_is_stopped)
{
    struct story s = story_begin();
    struct worker_found runs = {.key = KEY("j", 1), .pid = 42};
    struct worker_found ended = {.key = KEY("j", 2), .exited = true, .exit = {.lost = true}};
    happen(&s, EVENT(FOUND, .found = &runs));
    EXPECT(s, EVENT(FOUND, .found = &ended), "report");
    happen(&s, EVENT(REGISTERED));
    DESIRE_NOTHING(s, "term(j/1) report");
    EXPECT(s, ABOUT(SHIPPED, 2), "forget(j/2)");
    story_end(&s);
}

Test(agent_step, a_found_one_that_has_ended_is_kept_until_the_coordinator_speaks)
{
    struct story s = story_begin();
    struct worker_found ended = {.key = KEY("j", 1), .exited = true, .exit = {.lost = true}};
    happen(&s, EVENT(FOUND, .found = &ended));
    happen(&s, EVENT(REGISTERED));
    EXPECT(s, ABOUT(SHIPPED, 1), "");
    DESIRE_NOTHING(s, "forget(j/1)");
    story_end(&s);
}

Test(agent_step, a_fenced_agent_leaves_and_touches_nothing)
{
    struct story s = story_begin();
    joined(&s);
    EXPECT(s, EVENT(FENCED), "leave");
    DESIRE_NOTHING(s, "");
    EXPECT(s, ABOUT(WATCH, 1, .request = 5), "refuse#5(UNAVAILABLE)");
    EXPECT(s, EVENT(STOP_ALL), "");
    story_end(&s);
}

Test(agent_step, stop_all_ends_what_runs_and_starts_nothing_new)
{
    struct story s = story_begin();
    joined(&s);
    EXPECT(s, EVENT(STOP_ALL), "term(j/1) report");
    DESIRE(s, "report", {.uid = 1, .generation = 1}, {.uid = 2, .generation = 1});
    cr_expect_eq(worker(&s, 2)->state, AGENT_WORKER_EXITED);
    EXPECT(s, EVENT(KILL_ALL), "kill(j/1)");
    story_end(&s);
}

static int authorize(struct story *s, uint64_t uid, const char *token, bool old_ok)
{
    struct worker_key key = KEY("j", uid);
    return agent_core_authorize(s->core, &key, token, old_ok, NULL);
}

Test(agent_step, tokens_of_this_and_the_generation_before)
{
    struct story s = story_begin();
    joined(&s);
    cr_expect_eq(authorize(&s, 1, "token-1-1", false), 0);
    cr_expect_eq(authorize(&s, 1, "token-1-11", true), E_UNAUTHENTICATED);
    cr_expect_eq(authorize(&s, 1, "token-1-", true), E_UNAUTHENTICATED);
    cr_expect_eq(authorize(&s, 1, "", true), E_UNAUTHENTICATED);
    cr_expect_eq(authorize(&s, 2, "token-2-1", true), E_NOT_FOUND);
    desire(&s, &(struct want){.uid = 1, .generation = 2}, 1);
    cr_expect_eq(authorize(&s, 1, "token-1-1", false), E_ABORTED);
    cr_expect_eq(authorize(&s, 1, "token-1-1", true), 0);
    cr_expect_eq(authorize(&s, 1, "token-1-2", false), 0);
    happen(&s, ABOUT(JOIN, 1, .request = 3, .deadline_ms = 60000,
                     .join = {.generation = 2, .endpoint = "e"}));
    desire(&s, &(struct want){.uid = 1, .generation = 2, .formed = true}, 1);
    cr_expect_eq(authorize(&s, 1, "token-1-1", true), 0, "it may not have heard that it is over");
    cr_expect_eq(authorize(&s, 1, "token-1-1", false), E_ABORTED);
    story_end(&s);
}

Test(agent_step, who_starts_while_its_generation_is_overtaken_may_say_hello)
{
    struct story s = story_begin();
    happen(&s, EVENT(REGISTERED));
    desire(&s, &(struct want){.uid = 1, .generation = 1}, 1);
    desire(&s, &(struct want){.uid = 1, .generation = 2}, 1);
    cr_expect_eq(authorize(&s, 1, "token-1-1", true), 0);
    story_end(&s);
}

Test(agent_step, a_found_worker_may_speak_before_the_coordinator_does)
{
    struct story s = story_begin();
    struct worker_found found = {.key = KEY("j", 1), .pid = 42};
    strcpy(found.memory.tokens[0], "token-1-4");
    happen(&s, EVENT(FOUND, .found = &found));
    cr_expect_eq(authorize(&s, 1, "token-1-4", false), 0);
    cr_expect_eq(authorize(&s, 1, "other", false), E_UNAVAILABLE);
    cr_expect_eq(authorize(&s, 2, "other", false), E_UNAVAILABLE);
    EXPECT(s, ABOUT(HELLO, 1, .request = 3), "refuse#3(UNAVAILABLE)");
    story_end(&s);
}

Test(agent_step, a_token_says_whose_it_is)
{
    struct story s = story_begin();
    struct worker_key key;
    cr_expect_eq(agent_core_identify(s.core, "token-1-1", &key, NULL), E_UNAVAILABLE);
    joined(&s);
    cr_expect_eq(agent_core_identify(s.core, "token-1-1", &key, NULL), 0);
    cr_expect_eq(key.uid, 1);
    cr_expect_eq(agent_core_identify(s.core, "token-2-1", &key, NULL), E_UNAUTHENTICATED);
    cr_expect_eq(agent_core_identify(s.core, "", &key, NULL), E_UNAUTHENTICATED);
    desire(&s, &(struct want){.uid = 1, .generation = 2}, 1);
    cr_expect_eq(agent_core_identify(s.core, "token-1-1", &key, NULL), 0);
    cr_expect_eq(agent_core_identify(s.core, "token-1-2", &key, NULL), 0);
    story_end(&s);
}

Test(agent_step, there_is_a_limit_to_workers)
{
    struct story s = story_begin();
    happen(&s, EVENT(REGISTERED));
    struct assignment *one = NULL;
    struct assignment **list = calloc(AGENT_WORKERS_MAX + 1, sizeof(struct assignment *));
    for (int i = 0; i <= AGENT_WORKERS_MAX; i++)
        list[i] = assignment_of(&(struct want){.uid = (uint64_t)i + 1, .generation = 1});
    happen(&s, EVENT(DESIRED, .desired = {.assignments = list, .count = AGENT_WORKERS_MAX + 1}));
    int count = 0;
    for (const struct agent_worker *w = agent_core_first(s.core); w; w = w->next)
        count++;
    cr_expect_eq(count, AGENT_WORKERS_MAX);
    for (int i = 0; i <= AGENT_WORKERS_MAX; i++)
        assignment_release(list[i]);
    free(list);
    assignment_release(one);
    story_end(&s);
}
