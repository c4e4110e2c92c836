/* What programs reported of themselves last, by worker: how long their steps take, and their newest
 * numbers. In memory, lost with the coordinator: agents send all of it again when they register.
 * Above RANK_FIGURES_MAX_BYTES the job that was updated least recently is forgotten first, which is
 * one that has ended. Loop thread only. */
#ifndef API_RPC_RANK_FIGURES_H
#define API_RPC_RANK_FIGURES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/name.h"
#include "coordinator/model/job.h"
#include "proto/node.pb-c.h"

enum {
    RANK_FIGURES_NUMBERS_MAX = 64,          /* of a worker, as its agent bounds them too */
    RANK_FIGURES_MAX_BYTES = 64 << 20,      /* of all jobs */
    RANK_FIGURES_JOB_MAX_BYTES = 16 << 20,  /* of one: about 3,300 workers with 64 numbers each */
    RANK_FIGURES_REPORT_WORKERS_MAX = 4096, /* of one report; a node has fewer workers */
};

struct rank_figures_number {
    char name[METRIC_NAME_MAX + 1];
    double value;
};

struct rank_figures_worker {
    int timed;               /* durations of steps that the medians are of; 0 = none */
    double step_ms, work_ms; /* work_ms NAN = unknown */
    int count;
    struct rank_figures_number numbers[]; /* [count] */
};

struct rank_figures;

int rank_figures_new(struct rank_figures **ret, struct error *err);
void rank_figures_free(struct rank_figures *figures); /* accepts NULL */

/* Replace what is known of this worker of `job`. What is out of bounds is left out, and without
 * memory all of it. Figures of workers that the job has forgotten are removed now and then. */
void rank_figures_put(struct rank_figures *figures, const struct job *job,
                      const Muster__WorkerFigures *message);

/* NULL if nothing is known. Valid until the next change. */
const struct rank_figures_worker *rank_figures_of(const struct rank_figures *figures,
                                                  const char *job, uint64_t uid);

void rank_figures_forget(struct rank_figures *figures, const char *job);

#endif
