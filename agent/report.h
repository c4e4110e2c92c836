/* The agent's reports to the coordinator: the states of all workers, each beat and soon after a
 * change, and the data of the outbox. Owned by the driver; loop thread only. */
#ifndef AGENT_REPORT_H
#define AGENT_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/core/step.h"
#include "agent/figures.h"
#include "agent/gpu_watch.h"
#include "agent/link/coordinator_link.h"
#include "agent/outbox.h"
#include "common/base/arena.h"
#include "common/base/log.h"
#include "common/loop/loop.h"

enum {
    REPORT_SOON_MS = 10, /* changes at one moment are reported together */
    REPORT_MORE_MS = 50, /* between reports while output waits */
};

struct report { /* the first members are set by its owner */
    const char *node;
    struct loop *loop;
    const struct log *log;
    const struct agent_core *core;
    struct coordinator_link *link;
    struct outbox *outbox;
    struct figures *figures;
    struct gpu_watch *gpus; /* NULL = there are none */
    /* An ended worker's output is acknowledged; the answer to a report is here, `newest` if no
     * later report was sent. */
    void (*on_shipped)(void *arg, const struct worker_key *key);
    void (*on_answer)(void *arg, bool newest, int code);
    void *arg;
    struct arena arena; /* of the message being built */
    struct loop_timer beat_timer, timer;
    int64_t beat_ms, due_ms;
    uint64_t data_sequence; /* of the report with output and metrics in flight, 0 = none */
};

void report_fini(struct report *report); /* zeroed memory is allowed */

/* Send one at this time, or earlier if that was asked for. */
void report_at(struct report *report, int64_t at_ms);
void report_soon(struct report *report);
void report_output(struct report *report); /* if a report could carry some now */

/* Report every `beat_ms` from now on. */
void report_start_beat(struct report *report, int64_t beat_ms);

/* An empty arena, for the message that is built next. */
struct arena *report_arena(struct report *report);

#endif
