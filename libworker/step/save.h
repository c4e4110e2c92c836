/* When checkpoints are written, and which ranks agree on them. Rank 0 writes if all ranks have the
 * same state; otherwise each writes its part.
 *
 * Owned by the program's thread. The saver's thread asks the coordinator to commit, and reports how
 * a save ended.
 */
#ifndef STEP_SAVE_H
#define STEP_SAVE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "libworker/checkpoint/saver.h"
#include "libworker/step/consensus.h"

struct wk_context;

struct saving {
    struct saver *saver; /* NULL without checkpoint.dir */
    int folder_fd;       /* lock of the chosen checkpoint folder, without a session; or -1 */
    struct checkpoint_gate gate;
    int64_t patience_ms; /* for a coordinator that cannot be reached, and for the last save */
    int64_t saved_step;  /* step of the newest state passed to the saver; or -1 */
    int64_t saved_ms;    /* time of that */
    bool asked;          /* by wk_save, or for a step that was skipped */
    bool agreed;         /* sharded: all ranks save the present step */
    uint32_t ticket;     /* of the agreed save */
    uint32_t tickets;    /* number of those that this rank has made */

    pthread_mutex_t lock;
    /* Under lock. */
    bool again;       /* the last save failed; retry at again_ms */
    int64_t again_ms; /* time */
    int64_t pause_ms; /* delay after the next failure */
    bool closing;     /* nothing waits any more */
};

void saving_init(struct saving *saving);

/* Any thread waits no longer, and the present save ends. */
void save_close(struct wk_context *ctx);
void saving_fini(struct saving *saving);

int save_open(struct wk_context *ctx, struct error *err);

/* Called on the rank that chooses, before a checkpoint, or with `anew` the initial one, becomes the
 * state. A new run needs a writable folder. Without a coordinator the folder must also be empty of
 * checkpoints. WK_EIO, WK_EINVAL. For a continued run an unwritable folder is only a notice. No
 * other program may use the folder at the same time. */
int save_begin(struct wk_context *ctx, bool anew, struct error *err);

/* Add notices about a loaded checkpoint. `damaged` is the newest one that had to be skipped, or
 * "". */
void save_resumed(struct wk_context *ctx, const char *damaged);

/* Set rank 0's save numbers for the next step's sums. */
void save_announce(struct wk_context *ctx, struct consensus *said);

/* At a boundary: start a checkpoint if one is due. */
void save_if_due(struct wk_context *ctx);

/* The state is about to change by work of this queue, after the copies of a checkpoint that have
 * begun. After the host has waited for that work, or when the generation ends, they are written. */
void save_hold(struct wk_context *ctx, struct queue *queue);
void save_copied(struct wk_context *ctx);

/* Save the present state unless it is already saved, and wait for the save. It is retried within
 * checkpoint.patience or a stop request's grace, as long as no newer generation is announced. */
int save_last(struct wk_context *ctx, struct error *err);

#endif
