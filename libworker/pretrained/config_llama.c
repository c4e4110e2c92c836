/* The keys of Llama and its relatives (transformers, LlamaConfig, MistralConfig, Qwen2Config and
 * Qwen3Config). */
#include <string.h>

#include <worker/error.h>

#include "libworker/pretrained/config_keys.h"
#include "libworker/pretrained/config_parts.h"

/* Defaults of the relatives. */
enum { WINDOW = 4096, WINDOW_LAYER = 28 };

static int read_sizes(const struct tree *root, const struct family *family,
                      struct wk_llama_config *ret, struct error *err)
{
    const struct config_size sizes[] = {{"num_hidden_layers", &ret->layers},
                                        {"num_attention_heads", &ret->heads},
                                        {"hidden_size", &ret->width},
                                        {"intermediate_size", &ret->inner},
                                        {"max_position_embeddings", &ret->context},
                                        {"vocab_size", &ret->vocab},
                                        {0}};
    int rc = config_sizes(root, sizes, err);
    if (rc)
        return rc;
    /* null is no absent key */
    bool null = tree_get(root, "num_key_value_heads") && family->kv_heads;
    int pairs = family->kv_heads && !null ? family->kv_heads : ret->heads;
    rc = config_size(root, "num_key_value_heads", pairs, &ret->kv_heads, err);
    if (!rc && family->heads_divide && ret->width % ret->heads)
        rc = error_set(err, WK_EIO, "%d num_attention_heads do not divide a hidden_size of %d",
                       ret->heads, ret->width);
    bool given = tree_get(root, "head_dim") != NULL;
    int size = family->head_size && !given ? family->head_size : ret->width / ret->heads;
    if (!rc && (given || family->head_size))
        rc = config_size(root, "head_dim", size, &ret->head_size, err);
    if (!rc && ret->head_size == ret->width / ret->heads && ret->width % ret->heads == 0)
        ret->head_size = 0;
    return rc;
}

static int read_biases(const struct tree *root, const struct family *family,
                       struct wk_llama_config *ret, struct error *err)
{
    const struct config_wanted wanted[] = {
        {"attention_bias", family->bias == BIAS_QKV},
        {0},
    };
    int rc = 0;
    ret->qkv_bias = family->bias == BIAS_QKV;
    if (family->bias != BIAS_ASKED)
        rc = config_want_bools(root, wanted, err);
    else
        rc = config_bool(root, "attention_bias", &ret->qkv_bias, err);
    ret->out_bias = family->bias == BIAS_ASKED && ret->qkv_bias;
    if (rc)
        return rc;
    if (family->mlp_bias)
        return config_bool(root, "mlp_bias", &ret->mlp_bias, err);
    return config_want_bools(root, (struct config_wanted[]){{"mlp_bias", false}, {0}}, err);
}

/* A layer's kind must be the one that the window's keys define. */
static int check_layer(const struct tree *node, int i, const struct wk_llama_config *c,
                       struct error *err)
{
    const char *kind;
    bool windowed = c->window && i >= c->window_layer;
    if (tree_read_string(node, &kind, err))
        return error_recode(err, WK_EIO);
    if (strcmp(kind, windowed ? "sliding_attention" : "full_attention") == 0)
        return 0;
    return error_set(err, WK_EUNSUPPORTED,
                     "layer_types: layer %d is %.80s; these models compute %s there", i, kind,
                     windowed ? "sliding_attention" : "full_attention");
}

static int check_layers(const struct tree *root, const struct wk_llama_config *c, struct error *err)
{
    const struct tree *list = config_get(root, "layer_types"), *node;
    int i = 0, rc = 0;
    if (!list)
        return 0;
    if (list->kind != TREE_LIST || list->count != (size_t)c->layers)
        return error_set(err, WK_EIO, "layer_types is no list of %d layers", c->layers);
    for (node = tree_first(list); node && !rc; node = node->next)
        rc = check_layer(node, i++, c, err);
    return rc;
}

/* The first layer with a window is the first of layer_types, or else max_window_layers. */
static int read_window_layer(const struct tree *root, struct wk_llama_config *ret,
                             struct error *err)
{
    const struct tree *from = config_get(root, "max_window_layers"), *node;
    const struct tree *list = config_get(root, "layer_types");
    int64_t layer = list ? 0 : WINDOW_LAYER;
    if (!list && from && (tree_read_i64(from, &layer, err) || layer < 0))
        return error_set(err, WK_EIO, "max_window_layers is no number of layers");
    for (node = list ? tree_first(list) : NULL; node; node = node->next, layer++) {
        if (node->kind == TREE_STRING && strcmp(node->string, "sliding_attention") == 0)
            break;
    }
    ret->window_layer = layer < ret->layers ? (int)layer : ret->layers;
    return 0;
}

static int read_window(const struct tree *root, const struct family *family,
                       struct wk_llama_config *ret, struct error *err)
{
    bool wanted = family->window == WINDOW_ALL;
    bool null = tree_get(root, "sliding_window") && !config_get(root, "sliding_window");
    int rc = 0;
    if (family->window == WINDOW_ASKED)
        rc = config_bool(root, "use_sliding_window", &wanted, err);
    if (!rc && wanted && !null)
        rc = config_size(root, "sliding_window", WINDOW, &ret->window, err);
    if (!rc && ret->window && family->window == WINDOW_ASKED)
        rc = read_window_layer(root, ret, err);
    if (rc)
        return rc;
    return check_layers(root, ret, err);
}

int config_llama_read(const struct tree *root, const struct family *family,
                      struct wk_llama_config *ret, struct error *err)
{
    ret->norm_epsilon = 1e-6;
    ret->qk_norm = family->qk_norm;
    int rc = read_sizes(root, family, ret, err);
    if (!rc)
        rc = config_number(root, "rms_norm_eps", &ret->norm_epsilon, err);
    if (!rc)
        rc = config_rope_read(root, ret, err);
    if (!rc)
        rc = config_want_text(root, "hidden_act", "silu", err);
    if (!rc)
        rc = config_bool(root, "tie_word_embeddings", &ret->tied, err);
    if (!rc)
        rc = read_biases(root, family, ret, err);
    if (!rc)
        rc = read_window(root, family, ret, err);
    return rc;
}

static const char *json_bool(bool value)
{
    return value ? "true" : "false";
}

static void write_window(const struct wk_llama_config *c, const struct family *family,
                         struct buf *out)
{
    if (family->window == WINDOW_NEVER)
        return;
    if (family->window == WINDOW_ASKED)
        (void)buf_printf(out, "  \"use_sliding_window\": %s,\n  \"max_window_layers\": %d,\n",
                         json_bool(c->window), c->window ? c->window_layer : c->layers);
    if (c->window)
        (void)buf_printf(out, "  \"sliding_window\": %d,\n", c->window);
    else
        (void)buf_str(out, "  \"sliding_window\": null,\n");
}

int config_llama_write(const struct wk_llama_config *c, const struct family *family,
                       struct buf *out)
{
    (void)buf_printf(out,
                     "  \"num_hidden_layers\": %d,\n  \"num_attention_heads\": %d,\n"
                     "  \"num_key_value_heads\": %d,\n  \"hidden_size\": %d,\n"
                     "  \"head_dim\": %d,\n  \"intermediate_size\": %d,\n"
                     "  \"max_position_embeddings\": %d,\n  \"vocab_size\": %d,\n"
                     "  \"hidden_act\": \"silu\",\n  \"rms_norm_eps\": %.17g,\n"
                     "  \"tie_word_embeddings\": %s,\n",
                     c->layers, c->heads, c->kv_heads, c->width,
                     c->head_size ? c->head_size : c->width / c->heads, c->inner, c->context,
                     c->vocab, c->norm_epsilon, json_bool(c->tied));
    if (family->bias == BIAS_ASKED)
        (void)buf_printf(out, "  \"attention_bias\": %s,\n", json_bool(c->qkv_bias));
    if (family->mlp_bias)
        (void)buf_printf(out, "  \"mlp_bias\": %s,\n", json_bool(c->mlp_bias));
    write_window(c, family, out);
    return config_rope_write(c, out);
}
