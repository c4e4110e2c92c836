/* The step in progress: its event, its time and what it has changed so far. Only files of core
 * include this. */
#ifndef CORE_STEP_STATE_H
#define CORE_STEP_STATE_H

#include "common/base/map.h"
#include "coordinator/core/action.h"
#include "coordinator/core/event.h"

struct step {
    struct cluster *cluster;
    const struct event *event;
    struct actions *ret;
    int64_t now_ms, wall_ms;
    /* the dirty set (dirty_set.h) */
    struct map to_settle;     /* jobs, by sequence */
    struct map to_store;      /* jobs with a changed durable state */
    struct map to_show;       /* jobs with a changed visible state */
    struct strmap nodes;      /* nodes to store */
    struct strmap reassigned; /* nodes with changed assignments */
    bool wants_pass;          /* free resources or waiting jobs changed */
};

#endif
