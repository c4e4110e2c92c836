/* Data to report besides states: output lines (stored by the launcher until acknowledged) and
 * metric samples (stored here). One report at a time carries some of them. When the coordinator has
 * acknowledged that report they are removed; otherwise a later report carries them again. Loop
 * thread. */
#ifndef AGENT_OUTBOX_H
#define AGENT_OUTBOX_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/core/metric.h"
#include "agent/outbox_text.h"
#include "agent/supervisor/launcher.h"
#include "common/base/arena.h"
#include "proto/node.pb-c.h"

enum {
    OUTBOX_LOG_BYTES = 256 << 10,     /* of text in one report */
    OUTBOX_METRICS_MAX = 16384,       /* kept; the oldest are dropped first */
    OUTBOX_METRICS_PER_REPORT = 8192, /* about 600 KB */
    OUTBOX_CHUNKS_MAX = 64,           /* workers with output in one report */
};

struct outbox_place {    /* of a worker in its gang */
    uint64_t generation; /* 0 = that of its start */
    uint32_t rank;
    int64_t since_wall_ms;
};

struct outbox_worker { /* a worker with unreported output */
    struct worker_key key;
    struct outbox_place now, before; /* lines from before `now` began are of `before` */
    bool ended;                      /* it will write no more */
    bool more;                       /* there are unread lines */
    bool in_flight;
    bool complete; /* the lines in flight are its last */
    uint64_t next; /* first line after those in flight */
    struct outbox_worker *link;
};

struct outbox {
    struct launcher *launcher;
    struct outbox_worker *workers;
    struct outbox_texts texts;
    struct metric *metrics; /* a ring of OUTBOX_METRICS_MAX */
    uint64_t metrics_first, metrics_end;
    uint64_t metrics_sent; /* end of the samples in flight */
    uint64_t metrics_dropped;
    bool in_flight;
    struct output_batch batches[OUTBOX_CHUNKS_MAX]; /* of the report being built */
    int batches_count;
};

int outbox_init(struct outbox *outbox, struct launcher *launcher, struct error *err);
void outbox_fini(struct outbox *outbox);

/* Later lines of the worker have this place. If memory is short, they keep the earlier one. */
void outbox_joined(struct outbox *outbox, const struct worker_key *key,
                   const struct outbox_place *place);
void outbox_output(struct outbox *outbox, const struct worker_key *key); /* there is some */
void outbox_ended(struct outbox *outbox, const struct worker_key *key);  /* and no more follows */
void outbox_forget(struct outbox *outbox, const struct worker_key *key);
void outbox_metric(struct outbox *outbox, const struct metric *metric);

/* True if a report could carry something now. */
bool outbox_ready(const struct outbox *outbox);

/* Add ready data to the report; texts live until outbox_packed. The report stays unchanged while
 * another one is in flight, or if the arena is full. */
void outbox_fill(struct outbox *outbox, struct arena *arena, Muster__NodeReport *report);
/* The report was packed; `sent` false: it will not be sent. True if it carries data, so that
 * outbox_done must be called. */
bool outbox_packed(struct outbox *outbox, bool sent);

/* `shipped` is called for each ended worker once its output is fully acknowledged. */
void outbox_done(struct outbox *outbox, bool acknowledged,
                 void (*shipped)(void *arg, const struct worker_key *key), void *arg);

#endif
