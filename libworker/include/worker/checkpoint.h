/* Checkpoints of the whole training state, beyond the automatic ones.
 *
 * With the setting checkpoint.dir a context saves by itself: every checkpoint.every, at the end,
 * and when it is asked to stop. Saving happens between steps, from a copy, on a thread of its own.
 * With resume_from (which Muster sets after a restart) wk_prepare loads before the first step,
 * whatever world the checkpoint was written by; a damaged one gives way to the one before it, with
 * a notice. Outside Muster a run without it is refused in a folder that has checkpoints already.
 */
#ifndef WORKER_CHECKPOINT_H
#define WORKER_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include <worker/export.h>

#include <worker/precision.h>

#ifdef __cplusplus
extern "C" {
#endif

struct wk_context;
struct wk_model;

/* Save at the next step boundary, besides the automatic ones. All ranks call it or none. Without
 * checkpoint.dir WK_ESTATE, the context's error. */
WK_API int wk_save(struct wk_context *ctx);

/* Wait until nothing is being written. Returns the result of the last checkpoint written by this
 * rank, whose failure does not stop training: 0, WK_ENOMEM (disk full), WK_EIO, WK_EABORT (refused:
 * the generation was over). wk_last_notice has the sentence. */
WK_API int wk_save_wait(struct wk_context *ctx);

/* Check every byte of the checkpoint folder `path` against its digests. The sentence goes to `ctx`,
 * which may be NULL, as a notice. WK_ENOTFOUND, WK_EIO. */
WK_API int wk_checkpoint_verify(struct wk_context *ctx, const char *path);

/* Weights alone, as HuggingFace's transformers keep them: config.json and model.safetensors, or
 * several files and model.safetensors.index.json, under the names and in the layouts of theirs.
 * What they ask for beyond what our models compute is refused, never ignored. `ctx` receives the
 * sentence of a failure, of the first two as its error, and may be NULL.
 *
 * A GPT-2 or Llama of the shape that `path`/config.json tells, starting with the weights beside it.
 * The caller frees it. WK_ENOTFOUND, WK_EIO (damaged), WK_EUNSUPPORTED, WK_EMISMATCH, WK_ENOMEM.
 */
WK_API int wk_model_open(struct wk_context *ctx, const char *path, struct wk_model **ret_model);

/* Let a model made otherwise start with the weights at `path`, a folder or one safetensors file,
 * instead of a seed's. Names and shapes are checked now, values are read in wk_prepare, by every
 * rank; a checkpoint to resume from comes first. WK_EMISMATCH names the tensor that is missing, of
 * another shape, or unknown to the model; WK_ESTATE after wk_prepare; else as above. */
WK_API int wk_model_load(struct wk_context *ctx, struct wk_model *model, const char *path);

/* Write the weights to the folder `path`, which must not be there or be empty: whole or absent. Of
 * a prepared model all ranks call it between steps, and rank 0 writes. WK_EINVAL, WK_ENOMEM (disk
 * full too), WK_EIO, WK_ESTATE before wk_prepare, WK_EPEER when the generation ended: nothing was
 * written, it can be after the next wk_next. The sentence is a notice. */
struct wk_export_options {
    enum wk_format format; /* WK_FORMAT_F32, F16 or BF16 */
    uint64_t file_bytes;   /* largest file, but for a tensor larger than that; 0 = one file */
};
WK_API int wk_model_save(struct wk_context *ctx, struct wk_model *model, const char *path,
                         const struct wk_export_options *options); /* NULL: F32, one file */

#ifdef __cplusplus
}
#endif

#endif
