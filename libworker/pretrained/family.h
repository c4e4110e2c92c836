/* The families of models that transformers has files for. A table has their names in config.json,
 * the defaults of its keys, and how parameters are named in files. Source: transformers 5.23, the
 * configurations and models of these names. Constant; any thread. */
#ifndef PRETRAINED_FAMILY_H
#define PRETRAINED_FAMILY_H

#include <stdbool.h>

#include <worker/nn.h>

enum family_bias {
    BIAS_NEVER,
    BIAS_QKV,   /* queries, keys and values have one */
    BIAS_ASKED, /* they and the product after attention, if attention_bias is true */
};

enum family_window {
    WINDOW_NEVER,
    WINDOW_ALL,   /* of sliding_window, in all layers */
    WINDOW_ASKED, /* so too, from layer max_window_layers on, if use_sliding_window is true */
};

struct family {
    const char *type;         /* model_type */
    const char *architecture; /* the class of its language model */
    const char *prefix;       /* in files, before a parameter's name here */
    bool is_gpt;              /* wk_gpt_config; else wk_llama_config and what follows */
    enum family_bias bias;
    enum family_window window;
    bool mlp_bias; /* there is such a key */
    bool qk_norm;
    bool heads_divide; /* the width, even if there is a head_dim */
    int kv_heads;      /* without the key; 0: heads */
    int head_size;     /* without the key; 0: width / heads */
};

/* NULL if there is none of this model_type. */
const struct family *family_of_type(const char *type);
const struct family *family_of_gpt(void);

/* The first that computes what the config does, or NULL. */
const struct family *family_of_llama(const struct wk_llama_config *config);

/* "gpt2, llama, …" for sentences. */
enum { FAMILY_LIST_MAX = 128 };
const char *family_list(char ret[FAMILY_LIST_MAX]);

/* The name in files of a parameter called `name` here; family NULL: the same. Returns ret. */
enum { PRETRAINED_NAME_MAX = 128 };
const char *family_name(const struct family *family, const char *name,
                        char ret[PRETRAINED_NAME_MAX]);

#endif
