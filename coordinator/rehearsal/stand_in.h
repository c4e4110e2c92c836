/* The agent of a node in a rehearsal: starts, re-forms and ends workers as instructed, at once
 * except for the start time, and reports all of them. Only for rehearsal.c. */
#ifndef REHEARSAL_STAND_IN_H
#define REHEARSAL_STAND_IN_H

#include "coordinator/core/event.h"

struct stand_in_worker {
    char job[JOB_ID_MAX + 1];
    uint64_t uid, joining, joined, wanted; /* wanted: newest generation it should be in */
    int64_t ready_ms;                      /* it can join from then on */
    bool exited, named;
    struct exit_info exit;
};

struct stand_in {
    char name[NAME_LENGTH_MAX + 1];
    struct stand_in_worker *workers;
    int count, capacity;
    uint64_t sequence; /* of reports */
    bool dirty;        /* it has work to do */
};

/* Read the coordinator's present assignments; returns when to do so again (INT64_MAX: after a
 * change). */
int64_t stand_in_follow(struct stand_in *node, const struct cluster *cluster, int64_t now_ms,
                        int64_t start_ms);
/* All its workers of that job finish. */
void stand_in_finish(struct stand_in *node, const char *job, int64_t now_ms);
/* `ret` has space for count. */
void stand_in_report(const struct stand_in *node, struct worker_report *ret);
void stand_in_fini(struct stand_in *node);

#endif
