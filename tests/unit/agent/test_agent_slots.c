/* Slots that are GPUs: when their memory lets the next worker start. */
#include "tests/unit/agent/story.h"

#define MIB ((int64_t)1 << 20)
/* A reading of both GPUs that began now. */
#define READ(a, b)                                                                                 \
    EVENT(GPUS, .gpus = {.used_bytes = (const int64_t[]){(a)*MIB, (b)*MIB}, 2, s.now_ms})
#define LOST(a) EVENT(GPUS, .gpus = {.used_bytes = (const int64_t[]){-1, (a)*MIB}, 2, s.now_ms})

static enum agent_slot_state state_of(const struct story *s, int slot)
{
    int count;
    const struct agent_slot *slots = agent_core_slots(s->core, &count);
    cr_assert(slot < count);
    return slots[slot].state;
}

static int64_t excess_of(const struct story *s, int slot)
{
    int count;
    return agent_slot_excess(&agent_core_slots(s->core, &count)[slot]) / MIB;
}

/* 500 MiB are in use on an idle GPU. Worker 1 has slot 0, and has used 40,000 MiB. */
static struct story story_used(void)
{
    struct story s = story_begin();
    happen(&s, EVENT(REGISTERED));
    EXPECT(s, READ(500, 0), "");
    DESIRE(s, "start(j/1@1) remember(j/1:0)", {.uid = 1, .generation = 1, .slots = 1});
    EXPECT(s, ABOUT(STARTED, 1, .started = {.pid = 42}), "report");
    EXPECT(s, READ(40000, 0), "");
    cr_expect_eq(state_of(&s, 0), AGENT_SLOT_USED);
    cr_expect_eq(state_of(&s, 1), AGENT_SLOT_IDLE);
    return s;
}

Test(agent_slots, the_next_worker_starts_when_memory_is_back_at_the_baseline)
{
    struct story s = story_used();
    EXPECT(s, ABOUT(EXITED, 1, .exit = &exit_0), "report read");
    DESIRE(s, "read", {.uid = 2, .generation = 2, .slots = 1});
    s.now_ms += 200;
    EXPECT(s, READ(500 + 129, 0), "read");
    s.now_ms += 200;
    EXPECT(s, READ(500 + 128, 0), "start(j/2@2) remember(j/2:0)");
    cr_expect_eq(state_of(&s, 0), AGENT_SLOT_USED);
    story_end(&s);
}

Test(agent_slots, a_reading_that_began_before_the_end_says_nothing)
{
    struct story s = story_used();
    struct agent_event early = READ(500, 0);
    s.now_ms += 1;
    EXPECT(s, ABOUT(EXITED, 1, .exit = &exit_0), "report read");
    EXPECT(s, early, "read");
    cr_expect_eq(state_of(&s, 0), AGENT_SLOT_CLEARING);
    EXPECT(s, READ(500, 0), "");
    cr_expect_eq(state_of(&s, 0), AGENT_SLOT_IDLE);
    story_end(&s);
}

Test(agent_slots, a_slot_whose_memory_stays_in_use_is_held_until_it_is_back)
{
    struct story s = story_used();
    s.wakes = true;
    EXPECT(s, ABOUT(EXITED, 1, .exit = &exit_0), "report read wake(16000)");
    DESIRE(s, "read wake(16000)", {.uid = 2, .generation = 2, .slots = 1});
    s.now_ms += AGENT_CLEARING_MS - 1;
    EXPECT(s, READ(3500, 0), "read wake(16000)");
    s.now_ms += 1;
    EXPECT(s, EVENT(TICK), "report report");
    cr_expect_eq(state_of(&s, 0), AGENT_SLOT_HELD);
    cr_expect_eq(excess_of(&s, 0), 3000);
    const struct agent_worker *refused = story_worker(&s, 2);
    cr_expect_eq(refused->state, AGENT_WORKER_EXITED);
    cr_expect_eq(refused->exit.code, AGENT_START_AGAIN);
    cr_expect_str_eq(refused->start_error, "the memory of the GPU of slot 0 is still in use after "
                                           "its last worker ended");
    EXPECT(s, READ(3500, 0), "");
    EXPECT(s, READ(500, 0), "report");
    cr_expect_eq(state_of(&s, 0), AGENT_SLOT_IDLE);
    DESIRE(s, "forget(j/2) start(j/3@3) remember(j/3:0)", {.uid = 3, .generation = 3, .slots = 1});
    story_end(&s);
}

Test(agent_slots, other_slots_are_not_waited_for)
{
    struct story s = story_used();
    EXPECT(s, ABOUT(EXITED, 1, .exit = &exit_0), "report read");
    DESIRE(s, "read start(j/2@2) remember(j/2:0)",
           {.uid = 2, .generation = 2, .slot = 1, .slots = 1});
    story_end(&s);
}

Test(agent_slots, a_gpu_that_cannot_be_read_is_held_too)
{
    struct story s = story_used();
    EXPECT(s, ABOUT(EXITED, 1, .exit = &exit_0), "report read");
    EXPECT(s, LOST(0), "read");
    s.now_ms += AGENT_CLEARING_MS;
    EXPECT(s, LOST(0), "report");
    cr_expect_eq(state_of(&s, 0), AGENT_SLOT_HELD);
    cr_expect_eq(excess_of(&s, 0), 0);
    story_end(&s);
}

/* The baseline of a slot is not known when its worker is older than the agent. */
Test(agent_slots, a_worker_of_an_earlier_agent_leaves_little_behind)
{
    struct story s = story_begin();
    struct worker_found found = {.key = KEY("j", 1), .pid = 42};
    EXPECT(s, EVENT(FOUND, .key = found.key, .found = &found), "");
    EXPECT(s, READ(40000, 40000), "");
    cr_expect_eq(state_of(&s, 1), AGENT_SLOT_USED, "which slots it has is not known yet");
    happen(&s, EVENT(REGISTERED));
    DESIRE(s, "read", {.uid = 1, .generation = 1, .slots = 1});
    cr_expect_eq(state_of(&s, 0), AGENT_SLOT_USED);
    cr_expect_eq(state_of(&s, 1), AGENT_SLOT_CLEARING);
    EXPECT(s, ABOUT(EXITED, 1, .exit = &exit_0), "report read");
    EXPECT(s, READ(1025, 1024), "read");
    cr_expect_eq(state_of(&s, 0), AGENT_SLOT_CLEARING);
    cr_expect_eq(state_of(&s, 1), AGENT_SLOT_IDLE);
    EXPECT(s, READ(1024, 1024), "");
    story_end(&s);
}

/* It ran, although no event came between. */
Test(agent_slots, a_worker_that_ends_at_once_is_waited_for)
{
    struct story s = story_begin();
    happen(&s, EVENT(REGISTERED));
    EXPECT(s, READ(500, 0), "");
    DESIRE(s, "start(j/1@1) remember(j/1:0)", {.uid = 1, .generation = 1, .slots = 1});
    EXPECT(s, ABOUT(EXITED, 1, .exit = &exit_0), "report read");
    cr_expect_eq(state_of(&s, 0), AGENT_SLOT_CLEARING);
    story_end(&s);
}

Test(agent_slots, slots_that_are_no_gpus_are_free_at_once)
{
    struct story s = story_begin();
    happen(&s, EVENT(REGISTERED));
    DESIRE(s, "start(j/1@1) remember(j/1:0)", {.uid = 1, .generation = 1, .slots = 1});
    EXPECT(s, ABOUT(EXITED, 1, .exit = &exit_0), "report");
    DESIRE(s, "start(j/2@2) remember(j/2:0)", {.uid = 2, .generation = 2, .slots = 1});
    story_end(&s);
}
