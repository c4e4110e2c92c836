/* Lines about a worker that it did not write itself: where its processes are. Part of the outbox,
 * and reported as output of a second writer beside the worker. Loop thread. */
#ifndef AGENT_OUTBOX_TEXT_H
#define AGENT_OUTBOX_TEXT_H

#include <stdbool.h>

#include "agent/core/launch.h"
#include "common/base/arena.h"
#include "proto/node.pb-c.h"

enum {
    OUTBOX_TEXTS_BYTES = 16 << 20,       /* kept until acknowledged; later ones are dropped */
    OUTBOX_TEXTS_REPORT_BYTES = 1 << 20, /* in one report, or one longer text */
    OUTBOX_TEXTS_REPORT_MAX = 64,        /* the same by count; the others are in later reports */
};

struct outbox_text {
    struct worker_key key;
    uint32_t rank;
    uint64_t generation;
    int64_t wall_ms;
    char *text; /* lines, each with its end */
    size_t bytes;
    bool in_flight;
    struct outbox_text *link;
};

struct outbox_texts {          /* zeroed memory is empty */
    struct outbox_text *first; /* the oldest */
    size_t bytes;
};

/* `about` without its text, which is copied. */
void outbox_texts_add(struct outbox_texts *texts, const struct outbox_text *about, const char *text,
                      size_t size);
void outbox_texts_fini(struct outbox_texts *texts);

/* Append to the report's output, which has OUTBOX_TEXTS_REPORT_MAX places left; then, whether it
 * has any of them, and what became of it. */
void outbox_texts_fill(struct outbox_texts *texts, struct arena *arena, Muster__NodeReport *report);
bool outbox_texts_in_flight(const struct outbox_texts *texts);
void outbox_texts_done(struct outbox_texts *texts, bool acknowledged);

#endif
