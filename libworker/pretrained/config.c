#include <limits.h>
#include <math.h>
#include <string.h>

#include <worker/error.h>

#include "common/base/tree.h"
#include "libworker/checkpoint/file.h"
#include "libworker/pretrained/config.h"

static const double GPT_EPSILON = 1e-5;

/* NULL where the key is absent or null. */
static const struct tree *get(const struct tree *root, const char *key)
{
    const struct tree *node = tree_get(root, key);
    return node && node->kind != TREE_NULL ? node : NULL;
}

/* A size; `fallback` 0 makes the key necessary. */
static int size_of(const struct tree *root, const char *key, int fallback, int *ret,
                   struct error *err)
{
    const struct tree *node = get(root, key);
    int64_t value = fallback;
    if (node && tree_read_i64(node, &value, err))
        return error_recode(err, WK_EIO);
    if (value < 1 || value > INT_MAX)
        return error_set(err, WK_EIO, node ? "%s is no size" : "%s is missing", key);
    *ret = (int)value;
    return 0;
}

static int number_of(const struct tree *root, const char *key, double fallback, double *ret,
                     struct error *err)
{
    const struct tree *node = get(root, key);
    *ret = fallback;
    return node && tree_read_f64(node, ret, err) ? error_recode(err, WK_EIO) : 0;
}

/* A switch that these models have in one position only. */
static int want_bool(const struct tree *root, const char *key, bool wanted, struct error *err)
{
    const struct tree *node = get(root, key);
    bool value = wanted;
    if (node && tree_read_bool(node, &value, err))
        return error_recode(err, WK_EIO);
    if (value != wanted)
        return error_set(err, WK_EUNSUPPORTED, "%s is %s, which these models do not compute", key,
                         value ? "true" : "false");
    return 0;
}

static int want_text(const struct tree *root, const char *key, const char *wanted,
                     struct error *err)
{
    const struct tree *node = get(root, key);
    const char *value = wanted;
    if (node && tree_read_string(node, &value, err))
        return error_recode(err, WK_EIO);
    if (strcmp(value, wanted) != 0)
        return error_set(err, WK_EUNSUPPORTED, "%s is %.80s; these models compute %s", key, value,
                         wanted);
    return 0;
}

static int want_size(const struct tree *root, const char *key, int64_t wanted, struct error *err)
{
    const struct tree *node = get(root, key);
    int64_t value = wanted;
    if (node && tree_read_i64(node, &value, err))
        return error_recode(err, WK_EIO);
    if (value != wanted)
        return error_set(err, WK_EUNSUPPORTED, "%s is %lld; these models compute with %lld", key,
                         (long long)value, (long long)wanted);
    return 0;
}

struct wanted_bool {
    const char *key;
    bool value;
};

static int want_bools(const struct tree *root, const struct wanted_bool *list, struct error *err)
{
    int rc = 0;
    for (; list->key && !rc; list++)
        rc = want_bool(root, list->key, list->value, err);
    return rc;
}

static int parse_gpt(const struct tree *root, struct wk_gpt_config *ret, struct error *err)
{
    static const struct wanted_bool switches[] = {{"tie_word_embeddings", true},
                                                  {"scale_attn_weights", true},
                                                  {"scale_attn_by_inverse_layer_idx", false},
                                                  {"add_cross_attention", false},
                                                  {0}};
    double epsilon = GPT_EPSILON;
    int rc = size_of(root, "n_layer", 0, &ret->layers, err);
    if (!rc)
        rc = size_of(root, "n_head", 0, &ret->heads, err);
    if (!rc)
        rc = size_of(root, "n_embd", 0, &ret->width, err);
    if (!rc)
        rc = size_of(root, "n_positions", 0, &ret->context, err);
    if (!rc)
        rc = size_of(root, "vocab_size", 0, &ret->vocab, err);
    if (!rc)
        rc = want_bools(root, switches, err);
    if (!rc)
        rc = want_text(root, "activation_function", "gelu_new", err);
    if (!rc)
        rc = want_size(root, "n_inner", 4 * (int64_t)ret->width, err);
    if (!rc)
        rc = number_of(root, "layer_norm_epsilon", GPT_EPSILON, &epsilon, err);
    if (!rc && fabs(epsilon - GPT_EPSILON) > 1e-12)
        rc = error_set(err, WK_EUNSUPPORTED, "layer_norm_epsilon is %g; these models compute 1e-5",
                       epsilon);
    return rc;
}

/* The base of the rotary positions: a key of its own, or, in newer files, one of rope_parameters.
 * Stretched positions are refused. */
static int parse_rope(const struct tree *root, double *ret, struct error *err)
{
    const struct tree *parameters = get(root, "rope_parameters");
    const struct tree *scaling = get(root, "rope_scaling");
    int rc = number_of(root, "rope_theta", 10000, ret, err);
    if (!rc && parameters)
        rc = number_of(parameters, "rope_theta", *ret, ret, err);
    if (!rc)
        rc = want_text(parameters, "rope_type", "default", err);
    if (!rc)
        rc = want_text(scaling, "rope_type", "default", err);
    if (rc)
        return rc;
    return want_text(scaling, "type", "default", err);
}

static int parse_llama(const struct tree *root, struct wk_llama_config *ret, struct error *err)
{
    static const struct wanted_bool switches[] = {
        {"attention_bias", false}, {"mlp_bias", false}, {0}};
    const struct tree *tied = get(root, "tie_word_embeddings");
    int rc = size_of(root, "num_hidden_layers", 0, &ret->layers, err);
    if (!rc)
        rc = size_of(root, "num_attention_heads", 0, &ret->heads, err);
    if (!rc)
        rc = size_of(root, "num_key_value_heads", ret->heads, &ret->kv_heads, err);
    if (!rc)
        rc = size_of(root, "hidden_size", 0, &ret->width, err);
    if (!rc)
        rc = size_of(root, "intermediate_size", 0, &ret->inner, err);
    if (!rc)
        rc = size_of(root, "max_position_embeddings", 0, &ret->context, err);
    if (!rc)
        rc = size_of(root, "vocab_size", 0, &ret->vocab, err);
    if (!rc)
        rc = number_of(root, "rms_norm_eps", 1e-6, &ret->norm_epsilon, err);
    if (!rc)
        rc = parse_rope(root, &ret->rope_theta, err);
    if (!rc)
        rc = want_text(root, "hidden_act", "silu", err);
    if (!rc)
        rc = want_size(root, "head_dim", ret->width / ret->heads, err);
    if (!rc && tied && tree_read_bool(tied, &ret->tied, err))
        rc = error_recode(err, WK_EIO);
    if (rc)
        return rc;
    return want_bools(root, switches, err);
}

static int parse_root(const struct tree *root, struct model_config *ret, struct error *err)
{
    const char *type;
    const struct tree *node = get(root, "model_type");
    if (!node || tree_read_string(node, &type, err))
        return error_set(err, WK_EIO, "it has no model_type");
    if (strcmp(type, "gpt2") == 0)
        return parse_gpt(root, &ret->gpt, err);
    ret->kind = CONFIG_LLAMA;
    if (strcmp(type, "llama") == 0)
        return parse_llama(root, &ret->llama, err);
    return error_set(err, WK_EUNSUPPORTED, "a model of type %.80s; gpt2 and llama are known", type);
}

int model_config_parse(const char *text, size_t size, struct model_config *ret, struct error *err)
{
    struct arena arena = {0};
    struct tree *root;
    struct tree_input input = {.text = text, .size = size};
    struct model_config config = {.kind = CONFIG_GPT};
    int rc = tree_parse_json(&input, &arena, &root, err) ? file_unparsed(&arena, err) : 0;
    if (!rc)
        rc = parse_root(root, &config, err);
    arena_fini(&arena);
    if (!rc)
        *ret = config;
    return rc;
}

static int write_gpt(const struct wk_gpt_config *c, const char *type, struct buf *out)
{
    return buf_printf(out,
                      "{\n  \"architectures\": [\"GPT2LMHeadModel\"],\n"
                      "  \"model_type\": \"gpt2\",\n"
                      "  \"n_layer\": %d,\n  \"n_head\": %d,\n  \"n_embd\": %d,\n"
                      "  \"n_positions\": %d,\n  \"n_ctx\": %d,\n  \"vocab_size\": %d,\n"
                      "  \"activation_function\": \"gelu_new\",\n"
                      "  \"layer_norm_epsilon\": 1e-05,\n"
                      "  \"embd_pdrop\": 0.0,\n  \"attn_pdrop\": 0.0,\n  \"resid_pdrop\": 0.0,\n"
                      "  \"tie_word_embeddings\": true,\n"
                      "  \"bos_token_id\": null,\n  \"eos_token_id\": null,\n"
                      "  \"torch_dtype\": \"%s\"\n}\n",
                      c->layers, c->heads, c->width, c->context, c->context, c->vocab, type);
}

static int write_llama(const struct wk_llama_config *c, const char *type, struct buf *out)
{
    return buf_printf(out,
                      "{\n  \"architectures\": [\"LlamaForCausalLM\"],\n"
                      "  \"model_type\": \"llama\",\n"
                      "  \"num_hidden_layers\": %d,\n  \"num_attention_heads\": %d,\n"
                      "  \"num_key_value_heads\": %d,\n  \"hidden_size\": %d,\n"
                      "  \"head_dim\": %d,\n  \"intermediate_size\": %d,\n"
                      "  \"max_position_embeddings\": %d,\n  \"vocab_size\": %d,\n"
                      "  \"hidden_act\": \"silu\",\n  \"attention_bias\": false,\n"
                      "  \"mlp_bias\": false,\n  \"rms_norm_eps\": %.17g,\n"
                      "  \"rope_theta\": %.17g,\n  \"tie_word_embeddings\": %s,\n"
                      "  \"bos_token_id\": null,\n  \"eos_token_id\": null,\n"
                      "  \"torch_dtype\": \"%s\"\n}\n",
                      c->layers, c->heads, c->kv_heads, c->width, c->width / c->heads, c->inner,
                      c->context, c->vocab, c->norm_epsilon, c->rope_theta,
                      c->tied ? "true" : "false", type);
}

static const char *torch_type(enum wk_format format)
{
    return format == WK_FORMAT_F16 ? "float16" : format == WK_FORMAT_BF16 ? "bfloat16" : "float32";
}

int model_config_write(const struct model_config *config, enum wk_format format, struct buf *out)
{
    const char *type = torch_type(format);
    switch (config->kind) {
    case CONFIG_GPT:
        return write_gpt(&config->gpt, type, out);
    case CONFIG_LLAMA:
        return write_llama(&config->llama, type, out);
    }
    return WK_EINVAL;
}
