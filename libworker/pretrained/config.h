/* config.json of HuggingFace's transformers: the shape of a GPT-2 or Llama model, read and written.
 * What a file asks for beyond what these models compute is refused with its key, never ignored.
 * Plain data; any thread. Source: transformers, GPT2Config and LlamaConfig.
 */
#ifndef PRETRAINED_CONFIG_H
#define PRETRAINED_CONFIG_H

#include <worker/nn.h>
#include <worker/precision.h>

#include "common/base/buf.h"
#include "common/base/error.h"

enum { CONFIG_MAX_BYTES = 1 << 20 };

enum config_kind { CONFIG_GPT, CONFIG_LLAMA };

struct model_config {
    enum config_kind kind;
    struct wk_gpt_config gpt;     /* of CONFIG_GPT */
    struct wk_llama_config llama; /* of CONFIG_LLAMA */
};

/* WK_EIO: no such file; WK_EUNSUPPORTED: another kind of model, or another way to compute. */
int model_config_parse(const char *text, size_t size, struct model_config *ret, struct error *err);

/* Append the text. `format` is that of the weights beside it. WK_ENOMEM. */
int model_config_write(const struct model_config *config, enum wk_format format, struct buf *out);

#endif
