/* A model from a command line: a shape in words (--gpt layers=12,width=768) or the config.json of
 * HuggingFace's files. It has no memory for parameters, so a large one costs nothing. */
#ifndef CLI_MODEL_INPUT_H
#define CLI_MODEL_INPUT_H

#include "common/base/args.h"
#include "common/base/error.h"

struct wk_model;

#define MODEL_OPTIONS                                                                              \
    {.name = "gpt",                                                                                \
     .kind = ARGS_OPTION,                                                                          \
     .value_name = "SHAPE",                                                                        \
     .help = "a GPT-2: layers=N,width=N, and heads (else width / 64), context (1024), vocab "      \
             "(50257)"},                                                                           \
        {.name = "llama",                                                                          \
         .kind = ARGS_OPTION,                                                                      \
         .value_name = "SHAPE",                                                                    \
         .help = "a Llama: layers=N,width=N, and heads (width / 64), kv_heads (heads), inner "     \
                 "(about 8/3 width), context (2048), vocab (32000), tied (0)"},                    \
    {                                                                                              \
        .name = "mlp", .kind = ARGS_OPTION, .value_name = "SHAPE",                                 \
        .help = "a feed-forward language model: layers=N,width=N, and window (8), embedding "      \
                "(64), context (256), vocab (256)"                                                 \
    }
#define MODEL_FOLDER                                                                               \
    {                                                                                              \
        .name = "folder", .kind = ARGS_POSITIONAL, .value_name = "FOLDER",                         \
        .help = "HuggingFace's files of a model, or their config.json"                             \
    }

/* The model that the options name; freed with wk_model_free. A failure names the option and what
 * would do: no model or several, an unknown word, sizes outside their limits, a file that is not
 * there. */
int model_input(const struct args *args, struct wk_model **ret, struct error *err);

#endif
