/* How workers start, end, and are found again. */
#include "tests/unit/agent/story.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/str.h"

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
    cr_expect_eq(story_worker(&s, 1)->joining, 1);
    DESIRE(s, "remember(j/1:1) report join#6(ready g1)",
           {.uid = 1, .generation = 1, .formed = true});
    cr_expect_eq(story_worker(&s, 1)->joining, 0);
    EXPECT(s,
           ABOUT(PROGRESS, 1, .request = 7,
                 .progress = {.generation = 1, .step = 10, .total_steps = 100}),
           "progress#7");
    cr_expect_eq(story_worker(&s, 1)->memory.step, 10);
    struct worker_wait wait = {.communicator = "world", .sequence = 7, .waited_ms = 1200};
    EXPECT(s,
           ABOUT(PROGRESS, 1, .request = 7,
                 .progress = {.generation = 1, .step = 10, .total_steps = 100, .wait = &wait}),
           "progress#7");
    cr_expect_eq(story_worker(&s, 1)->wait.sequence, 7);
    EXPECT(s,
           ABOUT(PROGRESS, 1, .request = 7,
                 .progress = {.generation = 1, .step = 11, .total_steps = 100}),
           "progress#7");
    cr_expect_eq(story_worker(&s, 1)->wait.waited_ms, 0, "it goes on");
    EXPECT(s, ABOUT(EXITED, 1, .exit = &exit_0), "report");
    DESIRE(s, "", {.uid = 1, .generation = 1, .formed = true});
    DESIRE_NOTHING(s, "");
    EXPECT(s, ABOUT(SHIPPED, 1), "forget(j/1)");
    cr_expect_null(story_worker(&s, 1));
    story_end(&s);
}

Test(agent_step, a_forgotten_worker_is_never_started_again)
{
    struct story s = story_begin();
    story_join(&s);
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
    cr_expect_eq(story_worker(&s, 2)->state, AGENT_WORKER_STARTING);
    DESIRE(s, "start(j/1@1) remember(j/1:0)", {.uid = 1, .generation = 1},
           {.uid = 2, .generation = 1});
    story_end(&s);
}

/* Its end may not have been heard of: what a new registration tells must still be there. */
Test(agent_step, nobody_is_forgotten_before_the_coordinator_knows_this_agent)
{
    struct story s = story_begin();
    story_join(&s);
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
    story_join(&s);
    EXPECT(s, ABOUT(SHIPPED, 1), "");
    EXPECT(s, ABOUT(EXITED, 1, .exit = &exit_0), "report");
    DESIRE_NOTHING(s, "");
    EXPECT(s, ABOUT(SHIPPED, 1), "forget(j/1)");
    story_end(&s);
}

Test(agent_step, who_has_ended_neither_joins_nor_waits)
{
    struct story s = story_begin();
    story_join(&s);
    desire(&s, &(struct want){.uid = 1, .generation = 2}, 1);
    struct worker_wait wait = {.communicator = "world", .sequence = 7, .waited_ms = 1200};
    happen(&s, ABOUT(PROGRESS, 1, .request = 7, .progress = {.generation = 1, .wait = &wait}));
    happen(&s, ABOUT(JOIN, 1, .request = 8, .deadline_ms = 60000,
                     .join = {.generation = 2, .endpoint = "e"}));
    cr_assert(story_worker(&s, 1)->joining == 2 && story_worker(&s, 1)->wait.waited_ms == 1200);
    EXPECT(s, ABOUT(EXITED, 1, .exit = &exit_0), "refuse#8(CANCELLED) report");
    cr_expect_eq(story_worker(&s, 1)->joining, 0);
    cr_expect_eq(story_worker(&s, 1)->wait.waited_ms, 0);
    story_end(&s);
}

Test(agent_step, stop_escalates_until_it_has_ended)
{
    struct story s = story_begin();
    story_join(&s);
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

/* The node's agent starts again: it finds worker 1 with what was remembered of it. */
static void begin_next_agent(struct story *s)
{
    struct worker_found found = {
        .key = KEY("j", 1), .pid = 42, .memory = story_worker(s, 1)->memory};
    story_end(s);
    *s = story_begin();
    happen(s, EVENT(FOUND, .found = &found));
    happen(s, EVENT(REGISTERED));
}

Test(agent_step, an_early_signal_is_sent_once)
{
    struct story s = story_begin();
    story_join(&s);
    DESIRE(s, "remember(j/1:1) signal(j/1)",
           {.uid = 1, .generation = 1, .formed = true, .signal_wall_ms = 700});
    DESIRE(s, "", {.uid = 1, .generation = 1, .formed = true, .signal_wall_ms = 700});
    cr_expect_eq(story_worker(&s, 1)->memory.signal_wall_ms, 700);
    begin_next_agent(&s);
    DESIRE(s, "", {.uid = 1, .generation = 1, .formed = true, .signal_wall_ms = 700});
    story_end(&s);
}

Test(agent_step, a_program_that_starts_after_the_early_signal_does_not_get_it)
{
    struct story s = story_begin();
    happen(&s, EVENT(REGISTERED));
    DESIRE(s, "start(j/1@1) remember(j/1:0)", {.uid = 1, .generation = 1, .signal_wall_ms = 700});
    DESIRE(s, "", {.uid = 1, .generation = 1, .signal_wall_ms = 700});
    happen(&s, ABOUT(STARTED, 1, .started = {.pid = 42}));
    DESIRE(s, "", {.uid = 1, .generation = 1, .signal_wall_ms = 700});
    story_end(&s);
}

Test(agent_step, a_worker_that_is_asked_to_stop_gets_no_early_signal)
{
    struct story s = story_begin();
    story_join(&s);
    DESIRE(s, "term(j/1) report remember(j/1:1)",
           {.uid = 1, .generation = 1, .stop = true, .grace_ms = 3000, .signal_wall_ms = 700});
    story_end(&s);
}

Test(agent_step, a_request_for_stacks_is_met_once)
{
    struct story s = story_begin();
    story_join(&s);
    DESIRE(s, "stacks(j/1)", {.uid = 1, .generation = 1, .formed = true, .stacks_wall_ms = 700});
    DESIRE(s, "", {.uid = 1, .generation = 1, .formed = true, .stacks_wall_ms = 700});
    DESIRE(s, "stacks(j/1)", {.uid = 1, .generation = 1, .formed = true, .stacks_wall_ms = 701});
    begin_next_agent(&s);
    DESIRE(s, "", {.uid = 1, .generation = 1, .formed = true, .stacks_wall_ms = 701});
    DESIRE(s, "stacks(j/1)", {.uid = 1, .generation = 1, .formed = true, .stacks_wall_ms = 702});
    story_end(&s);
}

Test(agent_step, a_worker_that_starts_later_does_not_meet_a_request_for_stacks)
{
    struct story s = story_begin();
    happen(&s, EVENT(REGISTERED));
    DESIRE(s, "start(j/1@1) remember(j/1:0)", {.uid = 1, .generation = 1, .stacks_wall_ms = 700});
    happen(&s, ABOUT(STARTED, 1, .started = {.pid = 42}));
    DESIRE(s, "", {.uid = 1, .generation = 1, .stacks_wall_ms = 700});
    story_end(&s);
}

Test(agent_step, absence_from_the_desired_state_stops)
{
    struct story s = story_begin();
    story_join(&s);
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
    cr_expect_eq(story_worker(&s, 1)->state, AGENT_WORKER_EXITED);
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
    cr_expect(story_worker(&s, 2)->waits);
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
    cr_expect_eq(story_worker(&s, 2)->state, AGENT_WORKER_EXITED);
    EXPECT(s, ABOUT(EXITED, 1, .exit = &exit_0), "report");
    story_end(&s);
}

Test(agent_step, a_start_that_fails_is_reported_with_its_reason)
{
    struct story s = story_begin();
    happen(&s, EVENT(REGISTERED));
    desire(&s, &(struct want){.uid = 1, .generation = 1}, 1);
    EXPECT(s, ABOUT(START_FAILED, 1, .start_error = "port busy", .start_code = 71), "report");
    cr_expect_eq(story_worker(&s, 1)->exit.code, 71);
    cr_expect_str_eq(story_worker(&s, 1)->start_error, "port busy");
    cr_expect_eq(story_worker(&s, 1)->state, AGENT_WORKER_EXITED);
    DESIRE(s, "", {.uid = 1, .generation = 1});
    DESIRE_NOTHING(s, "forget(j/1)");
    story_end(&s);
}

Test(agent_step, a_found_worker_goes_on_until_the_coordinator_speaks)
{
    struct story s = story_begin();
    struct worker_found found = {
        .key = KEY("j", 1), .pid = 42, .memory = {.aware = true, .generation = 4}};
    strcpy(found.memory.tokens[0], "token-1-4");
    EXPECT(s, EVENT(FOUND, .found = &found), "");
    cr_expect_eq(story_worker(&s, 1)->state, AGENT_WORKER_JOINED);
    cr_expect(story_worker(&s, 1)->memory.aware);
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
    story_join(&s);
    EXPECT(s, EVENT(FENCED), "leave");
    DESIRE_NOTHING(s, "");
    EXPECT(s, ABOUT(WATCH, 1, .request = 5), "refuse#5(UNAVAILABLE)");
    EXPECT(s, EVENT(STOP_ALL), "");
    story_end(&s);
}

Test(agent_step, stop_all_ends_what_runs_and_starts_nothing_new)
{
    struct story s = story_begin();
    story_join(&s);
    EXPECT(s, EVENT(STOP_ALL), "term(j/1) report");
    DESIRE(s, "report", {.uid = 1, .generation = 1}, {.uid = 2, .generation = 1});
    cr_expect_eq(story_worker(&s, 2)->state, AGENT_WORKER_EXITED);
    EXPECT(s, EVENT(KILL_ALL), "kill(j/1)");
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
