/* The part of a sharded model's state that is in bf16 or f16. Bytes on each rank, for P parameters
 * over N ranks and Adam; the shard is 12 P/N, with its gradients 16 P/N in float, 14 P/N narrow:
 *
 *                read by products   gradients                    sum
 *      ZERO1     2P                 4P, narrow 2P                6P + 12 P/N, 4P + 12 P/N
 *      ZERO2     2P                 buckets in transit           2P + 16 P/N, 2P + 14 P/N
 *      FSDP      blocks in use      blocks in transit                 16 P/N,      14 P/N
 *
 * Gathers narrow this rank's row of the master and move 2 bytes per element. Vectors are not
 * narrowed: every rank has all of them in float, because they are few. With narrowing.grads a
 * unit's gradients are narrowed as soon as they are final and summed in that type; the sum over a
 * window's passes is rounded with each.
 *
 * Part of sharded.h, whose thread calls. In float only init, own, hide and clear are used.
 */
#ifndef PARALLEL_SHARDED_LOW_H
#define PARALLEL_SHARDED_LOW_H

#include "libworker/optim/clip.h"
#include "libworker/parallel/sharded.h"

/* Call it after the model's pointers are bound and initial values are set: binds the narrow
 * buffers. Does nothing in float. WK_ENOMEM. */
int sharded_low_init(struct sharded *s, struct error *err);
void sharded_low_fini(struct sharded *s);
int sharded_low_meet(struct sharded *s, struct wk_comm *comm);

/* Start gathering a unit; release it. */
int sharded_low_gather(struct sharded *s, int unit);
void sharded_low_drop(struct sharded *s, int unit);
void sharded_low_drop_grads(struct sharded *s, int unit);

/* Every vector of the master to every rank. Collective. */
int sharded_low_vectors(struct sharded *s);

/* The master where parameters are in float, for reading; and not any more. Collective; local. */
int sharded_low_show(struct sharded *s);
void sharded_low_hide(struct sharded *s);

/* Add a unit's float gradients to its narrow ones and release them. With narrowing.grads. */
void sharded_low_take(struct sharded *s, int unit);

/* Change what is summed of a unit's gradients in float: whichever gradients there are, into this
 * rank's row; then this row over the replicas. */
void sharded_low_reduce(struct sharded *s, int unit, struct wire_call *call);
void sharded_low_column(struct sharded *s, int unit, struct wire_call *call);

/* Whether narrow sums stay in this rank's row: ZERO1 with narrowing.grads. */
bool sharded_low_own(const struct sharded *s);

/* Without narrowing.grads: add the sum, in this rank's row in float, to the shard's narrow
 * gradient. */
void sharded_low_collect(struct sharded *s, int unit);

/* The window's sums are there: whether all are finite, on all ranks alike. Collective. */
int sharded_low_agree(struct sharded *s);

/* Elements [first, first + count) of the shard's gradient, whichever it is. And the sum of their
 * squares, now: waits, and uses the verdict's. The device's failure. */
struct clip_grads sharded_sums(const struct sharded *s, size_t first, size_t count);
int sharded_measure(const struct sharded *s, size_t first, size_t count, double *ret);

/* Drop the rest of the window's narrow gradients. */
void sharded_low_clear(struct sharded *s);

#endif
