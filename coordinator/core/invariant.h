/* The invariants of the whole cluster between steps. A check costs O(workers). The driver runs it
 * after every step in debug builds, tests/sim always. */
#ifndef CORE_INVARIANT_H
#define CORE_INVARIANT_H

#include "coordinator/model/cluster.h"

/* 0, or E_INTERNAL with the first broken rule and where:
 *
 *   slots        a slot has one owner; a node's used counts are the sum of its living workers, and
 *                within its size
 *   gangs        a group has ranks 0..world-1, each a different worker
 *   lost nodes   no forming group has a member there, nor has a published, unbroken one
 *   generations  only rise: current < forming < next
 *   states       a job's state and its groups agree; ended jobs run nothing
 *   newcomers    survivors that are enough wait for a worker that has not asked to join for
 *                NEWCOMER_PATIENCE_MS at most; a gang is asked to grow once new workers have asked
 *   ports        no two active jobs have the same port of one address
 *   begun        the begun jobs are those that are neither queued nor ended
 *   forgotten    no begun job has a worker on a node that is not known
 *   shares       the nodes counted for a join token are the known ones that it let in */
int invariant_check(const struct cluster *cluster, struct error *err);

/* Invariants across steps, compared with `memory`: ended states stay, generations and versions
 * never fall, jobs never vanish. `memory` is opaque and empty at first. */
struct invariant_memory;
struct invariant_memory *invariant_memory_new(void);
void invariant_memory_free(struct invariant_memory *memory);
int invariant_check_since(struct invariant_memory *memory, const struct cluster *cluster,
                          struct error *err);
/* A job that existed and was removed, 0 = none. The caller checks that it was allowed
 * (coordinator/retention.h) and then calls invariant_forget. */
uint64_t invariant_vanished(const struct invariant_memory *memory, const struct cluster *cluster);
void invariant_forget(struct invariant_memory *memory, uint64_t sequence);

#endif
