/* Models from and to the files of HuggingFace's transformers: parameters under their names there.
 * GPT-2's linear weights lie as Conv1D keeps them, [in, out], Llama's as Linear does, [out, in];
 * both are what our models hold, so nothing is transposed. A tied head is not written and, where a
 * file has one, must be the embedding.
 *
 * One thread per model.
 */
#ifndef PRETRAINED_PRETRAINED_H
#define PRETRAINED_PRETRAINED_H

#include <worker/checkpoint.h>

#include "common/base/error.h"
#include "libworker/nn/model.h"

/* A model of the shape that `path`/config.json tells, without values. WK_ENOTFOUND, WK_EIO,
 * WK_EUNSUPPORTED, WK_EINVAL (a shape outside the limits), WK_ENOMEM. */
int pretrained_model(const char *path, struct wk_model **ret, struct error *err);

/* Let the model's initial values be those of the files at `path`, which stay open until it is
 * freed. Everything but the values is checked here: WK_EMISMATCH names the tensor that is missing,
 * of another shape, or unknown to the model; otherwise as weights_open. */
int pretrained_load(struct wk_model *model, const char *path, struct error *err);

/* The parameters as they are in the model's memory, all of which must be readable. As
 * weights_write; WK_ESTATE unbound. */
int pretrained_save(const struct wk_model *model, const char *path,
                    const struct wk_export_options *options, struct error *err);

/* The text of config.json for the model, malloc'd: what a checkpoint says of it. NULL for one that
 * is neither GPT-2 nor Llama. WK_ENOMEM. */
int pretrained_config(const struct wk_model *model, enum wk_format format, char **ret,
                      struct error *err);

/* The weights of a checkpoint, whatever world and strategy wrote it, merged as a stream, with
 * config.json as the caller gives it, else as the checkpoint tells it; *ret_has_config: whether
 * there is one. Errors as checkpoint_load and weights_write; WK_EINVAL, which lists the models,
 * when it holds several and none is chosen, or not the one that is. */
struct pretrained_export {
    const char *checkpoint, *path;
    int model; /* from 1, in the order of wk_prepare; 0: the only one. At most NUMBERS_UNITS_MAX */
    struct wk_export_options options;
    const char *config; /* NULL: the checkpoint's */
};
int pretrained_export(const struct pretrained_export *what, bool *ret_has_config,
                      struct error *err);

/* The name in those files of a parameter called `name` here. Returns ret. */
enum { PRETRAINED_NAME_MAX = 128 };
const char *pretrained_name(bool is_gpt, const char *name, char ret[PRETRAINED_NAME_MAX]);

#endif
