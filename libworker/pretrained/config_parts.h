/* The parts of a config.json: GPT-2's, that of Llama and its relatives, and rotary positions. They
 * read a parsed file, as config_keys.h does, and append the lines of their keys to a text. Writing
 * fails with WK_ENOMEM only. Pure. */
#ifndef PRETRAINED_CONFIG_PARTS_H
#define PRETRAINED_CONFIG_PARTS_H

#include "common/base/buf.h"
#include "common/base/error.h"
#include "common/base/tree.h"
#include "libworker/pretrained/family.h"

int config_gpt_read(const struct tree *root, struct wk_gpt_config *ret, struct error *err);
int config_gpt_write(const struct wk_gpt_config *config, struct buf *out);

int config_llama_read(const struct tree *root, const struct family *family,
                      struct wk_llama_config *ret, struct error *err);
int config_llama_write(const struct wk_llama_config *config, const struct family *family,
                       struct buf *out);

/* rope_theta and rope_scaling, or, in newer files, rope_parameters with both. The context is that
 * of the config, which is read already. */
int config_rope_read(const struct tree *root, struct wk_llama_config *ret, struct error *err);
int config_rope_write(const struct wk_llama_config *config, struct buf *out);

#endif
