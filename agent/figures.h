/* What the programs of this node's workers reported of themselves: how long their steps take, and
 * the newest values of at most FIGURES_NAMES_MAX names each. The coordinator gets a worker's
 * figures as a whole, when they have changed and at most every FIGURES_EVERY_MS. They are resent
 * after a report that was lost. Owned by the agent; loop thread. */
#ifndef AGENT_FIGURES_H
#define AGENT_FIGURES_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/core/pace.h"
#include "agent/core/step.h"
#include "common/base/arena.h"
#include "common/base/map.h"
#include "proto/node.pb-c.h"

enum {
    FIGURES_NAMES_MAX = 64, /* of a worker; a further one replaces the oldest value */
    FIGURES_EVERY_MS = 5000,
    FIGURES_WORKERS_PER_REPORT = 64, /* about 350 KB; others are in a later report */
};

struct figures {           /* zeroed memory is one without workers */
    struct strmap workers; /* "job/uid" -> struct figures_worker */
    uint64_t turn;         /* rises with each value */
};

void figures_fini(struct figures *figures);

/* Without memory they do nothing. A name that no metric may have is ignored. */
void figures_stepped(struct figures *figures, const struct worker_key *key,
                     const struct pace_mark *mark);
void figures_number(struct figures *figures, const struct worker_key *key, const char *name,
                    double value);
void figures_forget(struct figures *figures, const struct worker_key *key);

/* Add those that are due to the report. They count as sent; texts live until the next change. */
void figures_fill(struct figures *figures, const struct agent_core *core, int64_t now_ms,
                  struct arena *arena, Muster__NodeReport *report);
/* A report did not arrive, or the coordinator may have forgotten all: send all again. */
void figures_resend(struct figures *figures);

#endif
