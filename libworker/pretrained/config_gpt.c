/* GPT-2's keys (transformers, GPT2Config). */
#include <math.h>

#include <worker/error.h>

#include "libworker/pretrained/config_keys.h"
#include "libworker/pretrained/config_parts.h"

static const double EPSILON = 1e-5;

int config_gpt_read(const struct tree *root, struct wk_gpt_config *ret, struct error *err)
{
    static const struct config_wanted switches[] = {{"tie_word_embeddings", true},
                                                    {"scale_attn_weights", true},
                                                    {"scale_attn_by_inverse_layer_idx", false},
                                                    {"add_cross_attention", false},
                                                    {0}};
    const struct config_size sizes[] = {{"n_layer", &ret->layers},   {"n_head", &ret->heads},
                                        {"n_embd", &ret->width},     {"n_positions", &ret->context},
                                        {"vocab_size", &ret->vocab}, {0}};
    double epsilon = EPSILON;
    int rc = config_sizes(root, sizes, err);
    if (!rc)
        rc = config_want_bools(root, switches, err);
    if (!rc)
        rc = config_want_text(root, "activation_function", "gelu_new", err);
    if (!rc)
        rc = config_want_size(root, "n_inner", 4 * (int64_t)ret->width, err);
    if (!rc)
        rc = config_number(root, "layer_norm_epsilon", &epsilon, err);
    if (!rc && fabs(epsilon - EPSILON) > 1e-12)
        rc = error_set(err, WK_EUNSUPPORTED, "layer_norm_epsilon is %g; these models compute 1e-5",
                       epsilon);
    return rc;
}

int config_gpt_write(const struct wk_gpt_config *c, struct buf *out)
{
    return buf_printf(out,
                      "  \"n_layer\": %d,\n  \"n_head\": %d,\n  \"n_embd\": %d,\n"
                      "  \"n_positions\": %d,\n  \"n_ctx\": %d,\n  \"vocab_size\": %d,\n"
                      "  \"activation_function\": \"gelu_new\",\n"
                      "  \"layer_norm_epsilon\": 1e-05,\n"
                      "  \"embd_pdrop\": 0.0,\n  \"attn_pdrop\": 0.0,\n  \"resid_pdrop\": 0.0,\n"
                      "  \"tie_word_embeddings\": true,\n",
                      c->layers, c->heads, c->width, c->context, c->context, c->vocab);
}
