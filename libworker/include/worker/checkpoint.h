/* Checkpoints of the whole training state, in addition to the automatic ones.
 *
 * With the setting checkpoint.dir a context saves by itself: every checkpoint.every, at the end,
 * and when it is asked to stop. Saving happens between steps, from a copy, on its own thread.
 *
 * With resume_from wk_prepare loads a checkpoint before the first step, whatever world wrote it.
 * Muster sets resume_from after a restart. If a checkpoint is damaged, the one before it is used,
 * with a notice. Outside Muster a run without resume_from is refused in a folder that already has
 * checkpoints.
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

/* Save at the next step boundary, in addition to the automatic checkpoints. All ranks call it or
 * none. WK_ESTATE (the context's error) without checkpoint.dir. */
WK_API int wk_save(struct wk_context *ctx);

/* Wait until no checkpoint is being written. Returns the result of the last one written by this
 * rank: 0, WK_ENOMEM (disk full), WK_EIO, WK_EABORT (refused: the generation was over). Such a
 * failure does not stop the training. wk_last_notice has the sentence. */
WK_API int wk_save_wait(struct wk_context *ctx);

/* Check every byte of the checkpoint folder `path` against its digests. `ctx` receives the sentence
 * as a notice and may be NULL. WK_ENOTFOUND, WK_EIO. */
WK_API int wk_checkpoint_verify(struct wk_context *ctx, const char *path);

/* Weights alone, in the layout of HuggingFace's transformers: config.json and model.safetensors, or
 * several files and model.safetensors.index.json, with their names and shapes. A file that asks for
 * more than our models compute is refused, never partly ignored. `ctx` receives the sentence of a
 * failure and may be NULL; for the first two functions it is the context's error.
 *
 * wk_model_open: a GPT-2, Llama, Mistral or Qwen of the shape in `path`/config.json, starting with
 * the weights beside it. The caller frees it. WK_ENOTFOUND, WK_EIO (damaged), WK_EUNSUPPORTED,
 * WK_EMISMATCH, WK_ENOMEM.
 */
WK_API int wk_model_open(struct wk_context *ctx, const char *path, struct wk_model **ret_model);

/* Start a model with the weights at `path` instead of a seed. `path` is a folder or one safetensors
 * file. Names and shapes are checked now; every rank reads the values in wk_prepare. A checkpoint
 * to resume from takes precedence. WK_EMISMATCH names the tensor that is missing, has another
 * shape, or is unknown to the model. WK_ESTATE after wk_prepare; other codes as above. */
WK_API int wk_model_load(struct wk_context *ctx, struct wk_model *model, const char *path);

/* Write the weights to the folder `path`, which must be empty or absent. The result is whole or
 * absent. For a prepared model all ranks call it between steps, and rank 0 writes.
 *
 * WK_EINVAL, WK_ENOMEM (disk full too), WK_EIO, WK_ESTATE before wk_prepare. WK_EPEER when the
 * generation ended: nothing was written; try again after the next wk_next. The sentence is a
 * notice.
 */
struct wk_export_options {
    enum wk_format format; /* WK_FORMAT_F32, F16 or BF16 */
    uint64_t file_bytes;   /* largest file, except for a tensor larger than that; 0 = one file */
};
WK_API int wk_model_save(struct wk_context *ctx, struct wk_model *model, const char *path,
                         const struct wk_export_options *options); /* NULL: F32, one file */

#ifdef __cplusplus
}
#endif

#endif
