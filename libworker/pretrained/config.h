/* config.json of HuggingFace's transformers: the shape of a model of one of its families, read and
 * written. A key of these families, or of another one that is known, that asks for more than these
 * models compute is refused by its name. Others are not read, as transformers does not.
 * Plain data; any thread.
 */
#ifndef PRETRAINED_CONFIG_H
#define PRETRAINED_CONFIG_H

#include <worker/nn.h>
#include <worker/precision.h>

#include "common/base/buf.h"
#include "common/base/error.h"
#include "libworker/pretrained/family.h"

enum { CONFIG_MAX_BYTES = 1 << 20 };

struct model_config {
    const struct family *family;
    struct wk_gpt_config gpt;     /* of a family that is_gpt */
    struct wk_llama_config llama; /* of the others */
};

/* WK_EIO: no such file; WK_EUNSUPPORTED: another kind of model, or another way to compute. */
int model_config_parse(const char *text, size_t size, struct model_config *ret, struct error *err);

/* Append the text. `format` is that of the weights beside it. WK_ENOMEM. */
int model_config_write(const struct model_config *config, enum wk_format format, struct buf *out);

#endif
