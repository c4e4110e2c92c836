/* Where every second of a job's life went. Part of the job (cluster.h): changed by core on the loop
 * thread, read between steps. Pure.
 *
 *   queue       waits for a place, first or after it gave way to another job
 *   start       its workers are being started, or newcomers join it
 *   productive  trains steps it had not done before
 *   checkpoint  stands still to save: what its program tells, and the grace in which it is stopped
 *   rework      does steps again that were done and lost with a failure
 *   recovery    from a failure to the next completed step, waiting for nodes included
 *   hang        trains, but completes no step for far longer than its steps take
 *
 * Each instant is charged to one phase, so the parts sum to the time since submission to the
 * millisecond. That time is the monotonic clock of the coordinator's machine; across a reboot it is
 * carried on by wall time, and should that have jumped back, no time has passed.
 */
#ifndef MODEL_LEDGER_H
#define MODEL_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

#define LEDGER_PHASES(X)                                                                           \
    X(QUEUE, queue)                                                                                \
    X(START, start)                                                                                \
    X(PRODUCTIVE, productive)                                                                      \
    X(CHECKPOINT, checkpoint)                                                                      \
    X(REWORK, rework)                                                                              \
    X(RECOVERY, recovery)                                                                          \
    X(HANG, hang)

enum ledger_phase {
#define X(upper, lower) LEDGER_##upper,
    LEDGER_PHASES(X)
#undef X
        LEDGER_COUNT,
};

enum {
    LEDGER_HANG_MIN_MS = 60000, /* shorter pauses are never called a hang: it may evaluate */
    LEDGER_HANG_STEPS = 20,     /* nor are those shorter than so many of its steps */
};

struct ledger {
    int64_t ms[LEDGER_COUNT];
    enum ledger_phase phase;  /* what the time from at_ms on is charged to */
    bool open, closed;        /* open: it counts; closed: the job has ended, nothing is added */
    int64_t begun_ms, at_ms;  /* monotonic, may be negative: submitted; charged up to here */
    int64_t sign_ms;          /* the last step, or whatever else excuses that there was none */
    int64_t typical_step_ms;  /* running mean; 0 = no step was seen */
    bool hangs;               /* patience has ended: all time is charged to hang until a step */
    uint64_t step, best_step; /* where it is; the farthest it ever was */
    uint64_t rework_steps;    /* done again */
};

const char *ledger_phase_name(enum ledger_phase phase); /* "queue" */

void ledger_begin(struct ledger *ledger, int64_t now_ms);

/* Charge the time up to now to the present phase, what is beyond patience to hang. Times before
 * at_ms charge nothing. */
void ledger_charge(struct ledger *ledger, int64_t now_ms);

/* When patience ends if no step comes; INT64_MAX: it has ended, or nothing is waited for. */
int64_t ledger_hangs_at_ms(const struct ledger *ledger);

/* From now on time is charged to `phase`; charge first. */
void ledger_enter(struct ledger *ledger, enum ledger_phase phase, int64_t now_ms);

/* It is at `step`: below the last one it has gone back. Charge first. */
void ledger_step(struct ledger *ledger, uint64_t step, int64_t now_ms);

/* The job has ended: nothing is added any more, and what only served to add is forgotten. Charge
 * first. */
void ledger_close(struct ledger *ledger);

/* It stood still to save for so long: taken out of what was charged as productive or rework. */
void ledger_saved(struct ledger *ledger, int64_t ms);

/* The monotonic clock is another one: times move with it. */
void ledger_shift(struct ledger *ledger, int64_t by_ms);

/* As if charged now; `ret_ms` has LEDGER_COUNT entries. Returns their sum. */
int64_t ledger_read(const struct ledger *ledger, int64_t now_ms, int64_t *ret_ms);

#endif
