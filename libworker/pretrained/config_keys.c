#include "libworker/pretrained/config_keys.h"

#include <limits.h>
#include <string.h>

#include <worker/error.h>

const struct tree *config_get(const struct tree *root, const char *key)
{
    const struct tree *node = tree_get(root, key);
    return node && node->kind != TREE_NULL ? node : NULL;
}

int config_size(const struct tree *root, const char *key, int fallback, int *ret, struct error *err)
{
    const struct tree *node = config_get(root, key);
    int64_t value = fallback;
    if (node && tree_read_i64(node, &value, err))
        return error_recode(err, WK_EIO);
    if (value < 1 || value > INT_MAX)
        return error_set(err, WK_EIO, node ? "%s is no size" : "%s is missing", key);
    *ret = (int)value;
    return 0;
}

int config_sizes(const struct tree *root, const struct config_size *list, struct error *err)
{
    int rc = 0;
    for (; list->key && !rc; list++)
        rc = config_size(root, list->key, 0, list->ret, err);
    return rc;
}

int config_number(const struct tree *root, const char *key, double *ret, struct error *err)
{
    const struct tree *node = config_get(root, key);
    return node && tree_read_f64(node, ret, err) ? error_recode(err, WK_EIO) : 0;
}

int config_bool(const struct tree *root, const char *key, bool *ret, struct error *err)
{
    const struct tree *node = config_get(root, key);
    return node && tree_read_bool(node, ret, err) ? error_recode(err, WK_EIO) : 0;
}

static int want_bool(const struct tree *root, const char *key, bool wanted, struct error *err)
{
    bool value = wanted;
    int rc = config_bool(root, key, &value, err);
    if (!rc && value != wanted)
        rc = error_set(err, WK_EUNSUPPORTED, "%s is %s, which these models do not compute", key,
                       value ? "true" : "false");
    return rc;
}

int config_want_bools(const struct tree *root, const struct config_wanted *list, struct error *err)
{
    int rc = 0;
    for (; list->key && !rc; list++)
        rc = want_bool(root, list->key, list->value, err);
    return rc;
}

int config_want_text(const struct tree *root, const char *key, const char *wanted,
                     struct error *err)
{
    const struct tree *node = config_get(root, key);
    const char *value = wanted;
    if (node && tree_read_string(node, &value, err))
        return error_recode(err, WK_EIO);
    if (strcmp(value, wanted) != 0)
        return error_set(err, WK_EUNSUPPORTED, "%s is %.80s; these models compute %s", key, value,
                         wanted);
    return 0;
}

int config_want_size(const struct tree *root, const char *key, int64_t wanted, struct error *err)
{
    const struct tree *node = config_get(root, key);
    int64_t value = wanted;
    if (node && tree_read_i64(node, &value, err))
        return error_recode(err, WK_EIO);
    if (value != wanted)
        return error_set(err, WK_EUNSUPPORTED, "%s is %lld; these models compute with %lld", key,
                         (long long)value, (long long)wanted);
    return 0;
}

/* Keys of Granite, Gemma, Cohere, mixtures of experts, DeepSeek, Llama 4, SmolLM3, OLMo, Falcon and
 * Qwen-VL, and of weights in fewer bits. */
static const struct other {
    const char *key;
    int off; /* the number that does nothing */
} others[] = {
    {"attention_multiplier", 0},
    {"attention_chunk_size", 0},
    {"attn_logit_softcapping", 0},
    {"attn_temperature_tuning", 0},
    {"clip_qkv", 0},
    {"embedding_multiplier", 1},
    {"final_logit_softcapping", 0},
    {"kv_lora_rank", 0},
    {"logit_scale", 1},
    {"logits_scaling", 1},
    {"moe_intermediate_size", 0},
    {"n_routed_experts", 0},
    {"no_rope_layers", 0},
    {"num_experts", 0},
    {"num_local_experts", 0},
    {"parallel_attn", 0},
    {"q_lora_rank", 0},
    {"qk_layernorm", 0},
    {"quantization_config", 0},
    {"query_pre_attn_scalar", 0},
    {"residual_multiplier", 1},
    {"rope_interleaved", 0},
    {"use_mrope", 0},
    {"use_parallel_residual", 0},
    {"use_qk_norm", 0},
};

/* false, that number, or an empty list or map. */
static bool is_off(const struct tree *node, int off)
{
    double number;
    bool on;
    struct error ignored = {0};
    if (node->kind == TREE_LIST || node->kind == TREE_MAP)
        return !tree_first(node);
    if (!tree_read_bool(node, &on, &ignored))
        return !on;
    return !tree_read_f64(node, &number, &ignored) && number == off;
}

int config_refuse_others(const struct tree *root, struct error *err)
{
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        const struct tree *node = config_get(root, others[i].key);
        if (node && !is_off(node, others[i].off))
            return error_set(err, WK_EUNSUPPORTED, "%s is set, which these models do not compute",
                             others[i].key);
    }
    return 0;
}
