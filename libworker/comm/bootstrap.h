/* Collects the endpoints of all ranks without a coordinator (torchrun, mpirun, plain env://). One
 * thread, for the time of the call. */
#ifndef COMM_BOOTSTRAP_H
#define COMM_BOOTSTRAP_H

#include "common/base/error.h"
#include "libworker/comm/bootstrap_options.h"
#include "libworker/comm/table.h"

/* Every rank sends rank 0 its endpoint through `master_addr:master_port` and receives the whole
 * table. Rank 0 listens on the first free port from master_port on, because torchrun's own store
 * may use that one; the others search for it. With `secret` NULL rank 0 draws one and sends it,
 * which is as open to the network as torch's own store.
 *
 * Trainings with one master_port never mix. Ranks ignore a training with another world or `run`.
 * Trainings with the same world and run (two rank 0s at a time, two processes of one rank) are
 * detected, and all ranks present are refused with WK_EINVAL.
 *
 * Details: without a `run` one case is not detected, where the second training's rank 0 starts only
 * after the first training has finished here.
 */
int comm_bootstrap(const struct comm_bootstrap_options *options, struct comm_table *ret,
                   struct error *err);

#endif
