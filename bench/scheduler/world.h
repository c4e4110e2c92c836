/* What the benchmarks of the scheduler share: a cluster of bare structs, and one pass over it. */
#ifndef BENCH_SCHEDULER_WORLD_H
#define BENCH_SCHEDULER_WORLD_H

#include "coordinator/core/step.h"

enum { WORLD_RACK = 32 }; /* nodes that share a value of the label `rack` */

/* `count` ready nodes, n00000 and so on. */
void world_add_nodes(struct cluster *cluster, int count, int slots);
/* A job that waits; it owns the spec. */
struct job *world_add_job(struct cluster *cluster, struct spec *spec);
/* Seconds that one coordinator_step takes whose event says no more than "look at the queue". */
double world_pass(struct cluster *cluster, int64_t now_ms);
/* Its gang has joined: what starts runs. */
void world_run(struct cluster *cluster, struct job *job);
/* Its gang has ended, as far as slots are concerned; the job waits again or is over. */
void world_end(struct cluster *cluster, struct job *job, bool waits);

#endif
