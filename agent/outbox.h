/* What waits to be reported besides states: output lines (kept by the launcher until acknowledged)
 * and metric samples (kept here). One report at a time carries some of them; they are gone once the
 * coordinator has acknowledged that report, else they go again with a later one. Loop thread.
 */
#ifndef AGENT_OUTBOX_H
#define AGENT_OUTBOX_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/core/metric.h"
#include "agent/supervisor/launcher.h"
#include "common/base/arena.h"
#include "proto/node.pb-c.h"

enum {
    OUTBOX_LOG_BYTES = 256 << 10,     /* of text in one report */
    OUTBOX_METRICS_MAX = 16384,       /* kept; the oldest go first */
    OUTBOX_METRICS_PER_REPORT = 8192, /* some 600 KB */
    OUTBOX_CHUNKS_MAX = 64,           /* workers whose output is in one report */
};

struct outbox_worker { /* whose output there is more of */
    struct worker_key key;
    bool ended; /* it will write no more */
    bool more;  /* lines wait that were not read yet */
    bool in_flight;
    bool complete; /* what is in flight is all there will be */
    uint64_t next; /* line after those in flight */
    struct outbox_worker *link;
};

struct outbox {
    struct launcher *launcher;
    struct outbox_worker *workers;
    struct metric *metrics; /* a ring of OUTBOX_METRICS_MAX */
    uint64_t metrics_first, metrics_end;
    uint64_t metrics_sent; /* end of what is in flight */
    uint64_t metrics_dropped;
    bool in_flight;
    struct output_batch batches[OUTBOX_CHUNKS_MAX]; /* of the report being built */
    int batches_count;
};

int outbox_init(struct outbox *outbox, struct launcher *launcher, struct error *err);
void outbox_fini(struct outbox *outbox);

void outbox_output(struct outbox *outbox, const struct worker_key *key); /* there is some */
void outbox_ended(struct outbox *outbox, const struct worker_key *key);  /* and no more to come */
void outbox_forget(struct outbox *outbox, const struct worker_key *key);
void outbox_metric(struct outbox *outbox, const struct metric *metric);

/* Is there anything that a report could carry now? */
bool outbox_ready(const struct outbox *outbox);

/* Put what is ready into the report; texts live until outbox_packed. Leaves the report as it was
 * while another one is in flight, or when the arena is full. */
void outbox_fill(struct outbox *outbox, struct arena *arena, Muster__NodeReport *report);
/* The report was packed; `sent` false: it will not go after all. True if it carries anything whose
 * fate outbox_done is to be told. */
bool outbox_packed(struct outbox *outbox, bool sent);

/* `shipped` is called for each ended worker all of whose output is acknowledged now. */
void outbox_done(struct outbox *outbox, bool acknowledged,
                 void (*shipped)(void *arg, const struct worker_key *key), void *arg);

#endif
