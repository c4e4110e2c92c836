/* Stories on virtual time: events in, the trace of actions out. A trace is one word per action:
 *
 *   register report start(j/1@2) term(j/1) signal(j/1) kill(j/1) remember(j/1:2) forget(j/1)
 *   wake(1200) leave
 *   hello#5(g2) join#5(ready g2) join#5(wait g2) join#5(go g3) join#5(stop) watch#6(g3)
 *   read watch#6(stop) progress#7 lost#8 refuse#9(NOT_FOUND)
 *
 * Wakes are left out unless asked for. */
#ifndef TESTS_AGENT_STORY_H
#define TESTS_AGENT_STORY_H

#include <criterion/criterion.h>

#include "agent/core/slot.h"
#include "agent/core/step.h"
#include "common/base/buf.h"

struct story {
    struct agent_core *core;
    struct agent_actions actions;
    int64_t now_ms;
    bool wakes;
    struct buf trace;
};

struct story story_begin(void);
void story_end(struct story *s);

/* Let it happen; returns the trace of what follows. */
const char *happen(struct story *s, struct agent_event event);

struct want { /* an assignment in short */
    uint64_t uid, generation;
    bool formed, stop;
    uint32_t grace_ms, leave_ms;
    uint32_t slot, slots;
    int64_t signal_wall_ms, stacks_wall_ms;
};

struct assignment *assignment_of(const struct want *want);
const char *desire(struct story *s, const struct want *wants, int count);

extern const struct worker_exit exit_0;

const struct agent_worker *story_worker(struct story *s, uint64_t uid);

/* A worker of generation 1 that runs, and has joined. */
void story_join(struct story *s);

#define KEY(j, u)        ((struct worker_key){.job = j, .uid = u})
#define EVENT(k, ...)    ((struct agent_event){.kind = AGENT_EVENT_##k, __VA_ARGS__})
#define ABOUT(k, u, ...) EVENT(k, .key = KEY("j", u), __VA_ARGS__)
#define EXPECT(s, event, trace)                                                                    \
    do {                                                                                           \
        const char *got_ = happen(&(s), event);                                                    \
        cr_expect_str_eq(got_, trace, "line %d: %s", __LINE__, got_);                              \
    } while (0)
#define DESIRE(s, trace, ...)                                                                      \
    do {                                                                                           \
        const struct want wants_[] = {__VA_ARGS__};                                                \
        const char *got_ = desire(&(s), wants_, sizeof(wants_) / sizeof(wants_[0]));               \
        cr_expect_str_eq(got_, trace, "line %d: %s", __LINE__, got_);                              \
    } while (0)
#define DESIRE_NOTHING(s, trace) EXPECT(s, EVENT(DESIRED, .desired = {.count = 0}), trace)

#endif
