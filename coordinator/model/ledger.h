/* How every second of a job's life was spent. Part of the job (cluster.h): changed by core on the
 * loop thread, read between steps. Pure.
 *
 *     queue       waits for a place, first or after preemption
 *     start       its workers are being started, or new ones join it
 *     productive  trains new steps
 *     checkpoint  pauses to save: as reported by the program, and the grace in which it is stopped
 *     rework      repeats steps that a failure lost
 *     recovery    from a failure to the next completed step, waiting for nodes included
 *     hang        trains, but completes no step for far longer than its steps need
 *
 * Each instant is charged to one phase, so the parts sum to the time since submission to the
 * millisecond. That time is the monotonic clock of the coordinator's machine. Across a reboot wall
 * time continues it; if wall time jumped back, no time has passed.
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
    LEDGER_HANG_MIN_MS = 60000, /* shorter pauses are never a hang: the job may evaluate */
    LEDGER_HANG_STEPS = 20,     /* nor are pauses shorter than this many of its steps */
};

struct ledger {
    int64_t ms[LEDGER_COUNT];
    enum ledger_phase phase;  /* gets the time from at_ms on */
    bool open, closed;        /* open: it counts; closed: the job has ended, nothing is added */
    int64_t begun_ms, at_ms;  /* monotonic, may be negative: submission; charged up to here */
    int64_t sign_ms;          /* the last step, or another event that explains a pause */
    int64_t typical_step_ms;  /* running mean; 0 = no step was seen */
    bool hangs;               /* the limit has passed: all time is charged to hang until a step */
    uint64_t step, best_step; /* the present step; the farthest one ever */
    uint64_t rework_steps;    /* repeated steps */
};

const char *ledger_phase_name(enum ledger_phase phase); /* "queue" */

void ledger_begin(struct ledger *ledger, int64_t now_ms);

/* Charge the time up to now to the present phase, and time beyond the hang limit to hang. Times
 * before at_ms charge nothing. */
void ledger_charge(struct ledger *ledger, int64_t now_ms);

/* When the hang limit passes without a step; INT64_MAX: it has passed, or does not apply. */
int64_t ledger_hangs_at_ms(const struct ledger *ledger);

/* Charge later time to `phase`. Call ledger_charge first. */
void ledger_enter(struct ledger *ledger, enum ledger_phase phase, int64_t now_ms);

/* The job is at `step`; below the last one it went back. Call ledger_charge first. */
void ledger_step(struct ledger *ledger, uint64_t step, int64_t now_ms);

/* The program announced a pause: time without steps is no hang. */
void ledger_busy(struct ledger *ledger, int64_t now_ms);

/* The job has ended: nothing is added any more, and auxiliary fields are cleared. Call
 * ledger_charge first. */
void ledger_close(struct ledger *ledger);

/* The program paused this long to save: move the time from productive or rework to checkpoint. */
void ledger_saved(struct ledger *ledger, int64_t ms);

/* The first step of a program is done, which has been running for this long: move the time from
 * productive or rework to start. Call ledger_charge first. */
void ledger_started(struct ledger *ledger, int64_t ms);

/* The monotonic clock was replaced: shift all times. */
void ledger_shift(struct ledger *ledger, int64_t by_ms);

/* The totals as if charged now; `ret_ms` has LEDGER_COUNT entries. Returns their sum. */
int64_t ledger_read(const struct ledger *ledger, int64_t now_ms, int64_t *ret_ms);

#endif
