/* How long the steps of a worker take: medians of the newest durations. A mark is how many steps a
 * program has completed, and how long all of them took. The difference of two marks, divided by
 * their steps, is one duration. Pure.
 *
 * Ranks that meet in each step need the same time for it, because those that are done earlier wait.
 * Such a gang's slow rank shows in the time without waiting, which only a program can know. */
#ifndef AGENT_PACE_H
#define AGENT_PACE_H

#include <stdbool.h>
#include <stdint.h>

enum { PACE_DURATIONS_MAX = 32 };
#define PACE_LEAST_S 0.05 /* marks that are closer than this count as one */

struct pace_mark {
    uint64_t step;         /* last completed */
    double seconds;        /* that all steps took so far */
    double waited_seconds; /* of them: waiting for ranks; NAN = unknown */
    bool fresh; /* the time since the mark before is no step's: a pause, or a new start */
};

struct pace { /* zeroed memory is one without marks */
    bool marked;
    struct pace_mark mark;                                           /* the newest */
    double step_ms[PACE_DURATIONS_MAX], work_ms[PACE_DURATIONS_MAX]; /* rings; work_ms may be NAN */
    uint64_t count;
};

/* True if it brought a new duration. */
bool pace_add(struct pace *pace, const struct pace_mark *mark);

struct pace_medians {
    int timed;               /* durations that they are of; 0 = none, and they are 0 */
    double step_ms, work_ms; /* work_ms NAN: unknown for some */
};
void pace_read(const struct pace *pace, struct pace_medians *ret);

#endif
