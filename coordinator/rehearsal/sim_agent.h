/* The agent of a node in a rehearsal: starts, re-forms and ends workers as instructed, at once
 * except for the start time, and reports all of them. Only for rehearsal.c. */
#ifndef REHEARSAL_SIM_AGENT_H
#define REHEARSAL_SIM_AGENT_H

#include "coordinator/core/event.h"

struct sim_worker {
    char job[JOB_ID_MAX + 1];
    uint64_t uid, joining, joined, wanted; /* wanted: newest generation it should be in */
    int64_t ready_ms;                      /* it can join from then on */
    bool exited, named;
    struct exit_info exit;
};

struct sim_agent {
    char name[NAME_LENGTH_MAX + 1];
    struct sim_worker *workers;
    int count, capacity;
    uint64_t sequence; /* of reports */
    bool dirty;        /* it has work to do */
};

/* Read the coordinator's present assignments; returns when to do so again (INT64_MAX: after a
 * change). */
int64_t sim_agent_follow(struct sim_agent *node, const struct cluster *cluster, int64_t now_ms,
                         int64_t start_ms);
/* All its workers of that job finish. */
void sim_agent_finish(struct sim_agent *node, const char *job, int64_t now_ms);
/* `ret` has space for count. */
void sim_agent_report(const struct sim_agent *node, struct worker_report *ret);
void sim_agent_fini(struct sim_agent *node);

#endif
