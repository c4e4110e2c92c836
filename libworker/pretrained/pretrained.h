/* Models from and to the files of HuggingFace's transformers, with parameters under their names
 * there. GPT-2's linear weights are stored as Conv1D's, [in, out], Llama's as Linear's, [out, in].
 * Our models use the same layouts, so nothing is transposed. A tied head is not written; if a file
 * has one, it must equal the embedding.
 *
 * One thread per model.
 */
#ifndef PRETRAINED_PRETRAINED_H
#define PRETRAINED_PRETRAINED_H

#include <worker/checkpoint.h>

#include "common/base/error.h"
#include "libworker/nn/model.h"

/* A model of the shape in `path`/config.json, without values. WK_ENOTFOUND, WK_EIO,
 * WK_EUNSUPPORTED, WK_EINVAL (a shape outside the limits), WK_ENOMEM. */
int pretrained_model(const char *path, struct wk_model **ret, struct error *err);

/* Let the model's initial values be those of the files at `path`, which stay open until it is
 * freed. Everything but the values is checked here: WK_EMISMATCH names the tensor that is missing,
 * of another shape, or unknown to the model; otherwise as weights_open. */
int pretrained_load(struct wk_model *model, const char *path, struct error *err);

/* The parameters as they are in the model's memory, all of which must be readable, and the buffers.
 * As weights_write; WK_ESTATE unbound. */
int pretrained_save(struct wk_model *model, const char *path,
                    const struct wk_export_options *options, struct error *err);

/* The text of config.json for the model, malloced, also for checkpoints. NULL for a model that is
 * of none of the families (family.h). WK_ENOMEM. */
int pretrained_config(const struct wk_model *model, enum wk_format format, char **ret,
                      struct error *err);

/* Merge the weights of a checkpoint of any world and strategy, as a stream. config.json is the
 * caller's, else the checkpoint's; *ret_has_config: there is one. Errors as checkpoint_load and
 * weights_write. WK_EINVAL, which lists the models, if it has several and none is chosen, or the
 * chosen one does not exist. */
struct pretrained_export {
    const char *checkpoint, *path;
    int model; /* from 1, in the order of wk_prepare; 0: the only one. At most NUMBERS_UNITS_MAX */
    struct wk_export_options options;
    const char *config; /* NULL: the checkpoint's */
};
int pretrained_export(const struct pretrained_export *what, bool *ret_has_config,
                      struct error *err);

#endif
