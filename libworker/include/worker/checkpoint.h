/* Checkpoints of the whole training state, beyond the automatic ones.
 *
 * With the setting checkpoint.dir a context saves by itself: every checkpoint.every, at the end,
 * and when it is asked to stop. Saving happens between steps, from a copy, on a thread of its own.
 * With resume_from (which Muster sets after a restart) wk_prepare loads before the first step,
 * whatever world the checkpoint was written by; a damaged one gives way to the one before it, with
 * a notice.
 */
#ifndef WORKER_CHECKPOINT_H
#define WORKER_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include <worker/export.h>

struct wk_context;

/* Save at the next step boundary, besides the automatic ones. All ranks call it or none. WK_ESTATE
 * without checkpoint.dir. */
WK_API int wk_save(struct wk_context *ctx);

/* Wait until nothing is being written. Returns the result of the last checkpoint written by this
 * rank, whose failure does not stop training: 0, WK_ENOMEM (disk full), WK_EIO, WK_EABORT (refused:
 * the generation was over). wk_last_notice has the sentence. */
WK_API int wk_save_wait(struct wk_context *ctx);

/* Check every byte of the checkpoint folder `path` against its digests. The sentence goes to `ctx`,
 * which may be NULL, as a notice. WK_ENOTFOUND, WK_EIO. */
WK_API int wk_checkpoint_verify(struct wk_context *ctx, const char *path);

#endif
