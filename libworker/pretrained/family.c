#include "libworker/pretrained/family.h"

#include <string.h>

#include "common/base/str.h"

/* Llama's relatives in the order in which an export tries them. */
static const struct family families[] = {
    {.type = "gpt2", .architecture = "GPT2LMHeadModel", .prefix = "transformer.", .is_gpt = true},
    {.type = "llama",
     .architecture = "LlamaForCausalLM",
     .prefix = "",
     .bias = BIAS_ASKED,
     .mlp_bias = true,
     .heads_divide = true},
    {.type = "mistral",
     .architecture = "MistralForCausalLM",
     .prefix = "",
     .window = WINDOW_ALL,
     .kv_heads = 8},
    {.type = "qwen2",
     .architecture = "Qwen2ForCausalLM",
     .prefix = "",
     .bias = BIAS_QKV,
     .window = WINDOW_ASKED,
     .kv_heads = 32},
    {.type = "qwen3",
     .architecture = "Qwen3ForCausalLM",
     .prefix = "",
     .bias = BIAS_ASKED,
     .window = WINDOW_ASKED,
     .qk_norm = true,
     .kv_heads = 32,
     .head_size = 128},
};

enum { FAMILIES = sizeof(families) / sizeof(families[0]) };

const struct family *family_of_type(const char *type)
{
    for (int i = 0; i < FAMILIES; i++)
        if (strcmp(families[i].type, type) == 0)
            return &families[i];
    return NULL;
}

const struct family *family_of_gpt(void)
{
    return &families[0];
}

static bool has_biases(const struct family *f, const struct wk_llama_config *c)
{
    switch (f->bias) {
    case BIAS_NEVER:
        return !c->qkv_bias && !c->out_bias;
    case BIAS_QKV:
        return c->qkv_bias && !c->out_bias;
    case BIAS_ASKED:
        return c->qkv_bias == c->out_bias;
    }
    return false;
}

static bool has_window(const struct family *f, const struct wk_llama_config *c)
{
    switch (f->window) {
    case WINDOW_NEVER:
        return c->window == 0;
    case WINDOW_ALL:
        return c->window == 0 || c->window_layer == 0;
    case WINDOW_ASKED:
        return true;
    }
    return false;
}

const struct family *family_of_llama(const struct wk_llama_config *c)
{
    for (int i = 0; i < FAMILIES; i++) {
        const struct family *f = &families[i];
        if (!f->is_gpt && has_biases(f, c) && has_window(f, c) && f->qk_norm == c->qk_norm &&
            (f->mlp_bias || !c->mlp_bias) && (!f->heads_divide || c->width % c->heads == 0))
            return f;
    }
    return NULL;
}

const char *family_list(char ret[FAMILY_LIST_MAX])
{
    size_t used = 0;
    for (int i = 0; i < FAMILIES; i++) {
        const char *before = i == 0 ? "" : i == FAMILIES - 1 ? " and " : ", ";
        (void)str_printf(ret + used, FAMILY_LIST_MAX - used, "%s%s", before, families[i].type);
        used += strlen(ret + used);
    }
    return ret;
}

const char *family_name(const struct family *family, const char *name,
                        char ret[PRETRAINED_NAME_MAX])
{
    (void)str_printf(ret, PRETRAINED_NAME_MAX, "%s%s", family ? family->prefix : "", name);
    return ret;
}
