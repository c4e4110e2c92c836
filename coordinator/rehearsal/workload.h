/* The input of a rehearsal, its results and its figures. */
#ifndef REHEARSAL_WORKLOAD_H
#define REHEARSAL_WORKLOAD_H

#include <stdint.h>

#include "common/base/name.h"

enum {
    REHEARSAL_NODES_MAX = 10000,
    REHEARSAL_JOBS_MAX = 100000,
    REHEARSAL_TENANTS_MAX = 100,
    REHEARSAL_EVENTS_MAX = 200000000, /* then the rehearsal stops */
};

#define REHEARSAL_TIME_MAX_MS (INT64_C(100) * 365 * 86400000) /* limit of each input */

struct rehearsal_node {
    char name[NAME_LENGTH_MAX + 1];
    char label[NAME_LENGTH_MAX + 1], label_value[NAME_LENGTH_MAX + 1]; /* "" = none */
    int slots;
};

struct rehearsal_tenant {
    char name[NAME_LENGTH_MAX + 1];
    int weight, guaranteed_slots, limit_slots;
    /* results */
    int jobs;           /* completed */
    int64_t slot_ms;    /* used */
    int64_t wait_ms;    /* of all its jobs */
    double share, owed; /* of all use; by weight, among tenants with jobs */
};

enum rehearsal_end { REHEARSAL_OPEN, REHEARSAL_DONE, REHEARSAL_REFUSED, REHEARSAL_FAILED };

struct rehearsal_job {
    char name[NAME_LENGTH_MAX + 1], tenant[NAME_LENGTH_MAX + 1];
    char topology[NAME_LENGTH_MAX + 1]; /* "" = none */
    int64_t submit_ms, duration_ms;
    int64_t max_runtime_ms; /* set by its owner, for backfill; 0 = none */
    int nodes_min, nodes_max, workers_per_node, slots;
    int priority;
    /* results; times from the beginning */
    enum rehearsal_end end;
    int64_t start_ms, end_ms; /* first placed; ended */
    int preemptions, resizes;
    char refusal[160];
};

struct rehearsal {
    struct rehearsal_node *nodes;
    int nodes_count;
    struct rehearsal_tenant *tenants;
    int tenants_count;
    struct rehearsal_job *jobs; /* by submit_ms; sorted by run */
    int jobs_count;
    int64_t start_ms;                                 /* from placement to the first step */
    void (*progress)(void *arg, int done, int count); /* may be NULL */
    void *arg;
};

struct rehearsal_figures {
    int done, refused, failed;
    int slots;
    int64_t makespan_ms;                               /* first submission to last end */
    double utilisation;                                /* slots in use, of all, over that time */
    int64_t wait_mean_ms, wait_median_ms, wait_p95_ms; /* submission to first placement */
    double slowdown_mean, slowdown_p95; /* (wait + run) / run, runs below 10 s counted as 10 s */
    double fairness;                    /* Jain's index of use / weight; 1 = perfectly fair */
    int preemptions, resizes;
};

#endif
