/* What an agent writes to a program that reports (docs/report.md): lines of JSON, without their
 * end, appended to the caller's buffer. Pure. */
#ifndef LINK_REPORT_ANSWER_H
#define LINK_REPORT_ANSWER_H

#include "agent/core/worker.h"
#include "common/base/buf.h"
#include "common/base/error.h"

enum { REPORT_PROTOCOL = 1 };

struct report_stop {
    bool stop;
    int64_t grace_ms;
    const char *reason;
};

struct report_place { /* for a program to find itself */
    const struct assignment *assignment;
    uint64_t generation;
    const char *latest;   /* checkpoint, "" = none */
    bool has_latest_step; /* it is the job's own */
    uint64_t latest_step;
    struct report_stop stop;
    int beat_ms, line_bytes;
};

/* Begin an answer or an error: {"id": ..., each ended by report_close. `id` below 0: without. */
void report_open(struct buf *out, int64_t id);
void report_close(struct buf *out);

/* `"name": value` into what is open. */
void report_put_text(struct buf *out, const char *name, const char *value); /* "" is null */
void report_put_count(struct buf *out, const char *name, uint64_t value);
void report_put_flag(struct buf *out, const char *name, bool value);

void report_put_stop(struct buf *out, const struct report_stop *stop);
void report_put_place(struct buf *out, const struct report_place *place);
void report_put_error(struct buf *out, const struct error *err);

#endif
