/* How workers hear of new generations, join them and leave. */
#include "tests/unit/agent/story.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/str.h"

Test(agent_generations, survivors_hear_of_the_new_generation_and_join_it)
{
    struct story s = story_begin();
    story_join(&s);
    EXPECT(s, ABOUT(WATCH, 1, .request = 10, .deadline_ms = 60000, .watch = {.generation = 1}), "");
    uint32_t ranks[] = {3, 1, 3};
    EXPECT(s,
           ABOUT(LOST_PEERS, 1, .request = 11,
                 .lost_peers = {.generation = 1, .ranks = ranks, .count = 3}),
           "report lost#11");
    cr_expect_eq(story_worker(&s, 1)->broken, 1);
    cr_expect_eq(story_worker(&s, 1)->lost_ranks_count, 2);
    cr_expect_eq(story_worker(&s, 1)->lost_ranks[0], 1);
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
    cr_expect_eq(story_worker(&s, 1)->broken, 0);
    story_end(&s);
}

Test(agent_generations, each_lost_rank_is_reported_once_and_so_many)
{
    struct story s = story_begin();
    uint32_t ranks[AGENT_LOST_RANKS_MAX];
    for (uint32_t i = 0; i < AGENT_LOST_RANKS_MAX; i++)
        ranks[i] = i;
    story_join(&s);
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
    cr_expect_eq(story_worker(&s, 1)->lost_ranks_count, AGENT_LOST_RANKS_MAX);
    story_end(&s);
}

Test(agent_generations, a_worker_that_lost_peers_of_no_generation_lost_none)
{
    struct story s = story_begin();
    uint32_t rank = 1;
    desire(&s, &(struct want){.uid = 1, .generation = 1}, 1);
    EXPECT(s,
           ABOUT(LOST_PEERS, 1, .request = 5,
                 .lost_peers = {.generation = 0, .ranks = &rank, .count = 1}),
           "lost#5");
    agent_core_check(s.core);
    cr_expect_eq(story_worker(&s, 1)->lost_ranks_count, 0);
    story_end(&s);
}

Test(agent_generations, what_is_told_of_an_older_generation_changes_nothing)
{
    struct story s = story_begin();
    uint32_t rank = 3;
    struct worker_wait wait = {.communicator = "world", .sequence = 7, .waited_ms = 1200};
    story_join(&s);
    happen(&s, ABOUT(PROGRESS, 1, .request = 2, .progress = {.generation = 1, .wait = &wait}));
    desire(&s, &(struct want){.uid = 1, .generation = 2}, 1);
    happen(&s, ABOUT(JOIN, 1, .request = 3, .deadline_ms = 60000,
                     .join = {.generation = 2, .step = 40, .endpoint = "e"}));
    cr_expect_eq(story_worker(&s, 1)->memory.step, 40, "known before its first step there");
    desire(&s, &(struct want){.uid = 1, .generation = 2, .formed = true}, 1);
    cr_expect_eq(story_worker(&s, 1)->wait.waited_ms, 0, "what it waited in is over");
    EXPECT(
        s,
        ABOUT(PROGRESS, 1, .request = 4, .progress = {.generation = 1, .step = 12, .wait = &wait}),
        "progress#4");
    cr_expect_eq(story_worker(&s, 1)->memory.step, 40);
    cr_expect_eq(story_worker(&s, 1)->wait.waited_ms, 0);
    EXPECT(s,
           ABOUT(LOST_PEERS, 1, .request = 5,
                 .lost_peers = {.generation = 1, .ranks = &rank, .count = 1}),
           "lost#5");
    cr_expect_eq(story_worker(&s, 1)->broken, 0);
    story_end(&s);
}

Test(agent_generations, a_join_from_another_endpoint_is_news)
{
    struct story s = story_begin();
    story_join(&s);
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
    cr_expect_str_eq(story_worker(&s, 1)->endpoint, "f");
    story_end(&s);
}

Test(agent_generations, a_lost_join_answer_is_repeated)
{
    struct story s = story_begin();
    story_join(&s);
    EXPECT(s,
           ABOUT(JOIN, 1, .request = 9, .deadline_ms = 60000,
                 .join = {.generation = 1, .endpoint = "e"}),
           "join#9(ready g1)");
    story_end(&s);
}

Test(agent_generations, a_forming_generation_may_itself_be_overtaken)
{
    struct story s = story_begin();
    story_join(&s);
    DESIRE(s, "", {.uid = 1, .generation = 2});
    happen(&s, ABOUT(JOIN, 1, .request = 9, .deadline_ms = 60000,
                     .join = {.generation = 2, .endpoint = "e"}));
    DESIRE(s, "join#9(go g3)", {.uid = 1, .generation = 3});
    /* an answer that was overtaken on the way */
    DESIRE(s, "", {.uid = 1, .generation = 2, .formed = true});
    cr_expect_eq(story_worker(&s, 1)->assignment->generation, 3);
    EXPECT(s,
           ABOUT(JOIN, 1, .request = 10, .deadline_ms = 60000,
                 .join = {.generation = 2, .endpoint = "f"}),
           "join#10(go g3)");
    story_end(&s);
}

Test(agent_generations, joining_what_was_never_announced_is_refused)
{
    struct story s = story_begin();
    story_join(&s);
    EXPECT(s, ABOUT(JOIN, 1, .request = 9, .join = {.generation = 7, .endpoint = "e"}),
           "refuse#9(FAILED_PRECONDITION)");
    story_end(&s);
}

Test(agent_generations, parked_calls_are_answered_before_their_deadline)
{
    struct story s = story_begin();
    story_join(&s);
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

Test(agent_generations, stop_is_heard_by_watch_and_join)
{
    struct story s = story_begin();
    story_join(&s);
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

Test(agent_generations, who_is_to_stop_hears_how_long_it_has)
{
    struct story s = story_begin();
    story_join(&s);
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

Test(agent_generations, calls_of_a_worker_that_ended_are_refused)
{
    struct story s = story_begin();
    story_join(&s);
    happen(&s, ABOUT(WATCH, 1, .request = 10, .deadline_ms = 60000, .watch = {.generation = 1}));
    EXPECT(s, ABOUT(EXITED, 1, .exit = &exit_0), "refuse#10(CANCELLED) report");
    EXPECT(s, ABOUT(PROGRESS, 1, .request = 11), "refuse#11(NOT_FOUND)");
    EXPECT(s, ABOUT(PROGRESS, 9, .request = 12), "refuse#12(NOT_FOUND)");
    EXPECT(s, ABOUT(EXITED, 1, .exit = &exit_0), "");
    story_end(&s);
}
