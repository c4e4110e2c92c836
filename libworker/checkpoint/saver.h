/* Checkpoints off the training path: saver_take copies the state into a snapshot and returns; a
 * thread of its own writes it. Training stalls for one copy, where the host reads the memory.
 *
 * Elsewhere the copies have a queue of their own and run beside the next passes; what changes the
 * state is enqueued after them (Maurya et al. 2024, DataStates-LLM):
 *
 *     state ──event──► copies ──event──► update, on the state's queue
 *     saver_take       (beside passes)   saver_hold … waited for … saver_copied ──► written
 *
 * One thread calls the verbs, that of the tensors' device; the gate and `report` run on the saver's
 * thread. The snapshot's memory is kept from one checkpoint to the next.
 */
#ifndef CHECKPOINT_SAVER_H
#define CHECKPOINT_SAVER_H

#include "libworker/checkpoint/folder.h"
#include "libworker/checkpoint/write.h"

struct saver;

struct saver_options {
    const char *dir;
    const struct checkpoint_gate *gate; /* NULL: no gate; outlives the saver */
    int keep;                           /* pruned here if no coordinator decides: 0 = all */
    /* A checkpoint was committed (err->code 0) or failed. May be NULL. */
    void (*report)(void *arg, int64_t step, const struct error *err);
    void *report_arg;
};

int saver_new(const struct saver_options *options, struct saver **ret, struct error *err);
void saver_free(struct saver *saver); /* waits for the write in progress; NULL is fine */

bool saver_busy(struct saver *saver);

/* Copy and hand over; or begin to copy. WK_ESTATE while busy; WK_ENOMEM without memory for a copy:
 * then saver_now; a device's failure. */
int saver_take(struct saver *saver, const struct checkpoint_write *what, struct error *err);

/* What is enqueued on `queue` from now on runs after the copies that have begun. Call it before
 * anything that changes the state. */
void saver_hold(struct saver *saver, struct queue *queue);

/* Wait for the copies that have begun, and hand over. Does not block once the host has waited for
 * work after saver_hold. A device's failure ends the checkpoint and is reported. */
void saver_copied(struct saver *saver);

/* Write from the live state, on this thread, after what is in progress. */
int saver_now(struct saver *saver, const struct checkpoint_write *what, struct error *err);

/* Shards of other ranks are not waited for any longer: the write in progress ends with WK_EABORT
 * unless it is complete. Any thread. */
void saver_cancel(struct saver *saver);

/* Wait for the copies and the write in progress; returns the result of the last one (0 if there was
 * none). */
int saver_wait(struct saver *saver, struct error *err);

#endif
