/* The command line of the example, from one table: parsing and --help derive from it. */
#ifndef GPT_OPTIONS_H
#define GPT_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

/* name, member, kind, default, help */
#define GPT_OPTIONS(X)                                                                             \
    X("data", data, TEXT, "",                                                                      \
      "text or token file; empty = the King James Bible of Debian's "                              \
      "bible-kjv-text")                                                                            \
    X("steps", steps, INTEGER, "300", "optimizer steps of the whole training")                     \
    X("layers", layers, INTEGER, "4", "transformer blocks")                                        \
    X("heads", heads, INTEGER, "4", "attention heads")                                             \
    X("width", width, INTEGER, "128", "size of the residual stream")                               \
    X("context", context, INTEGER, "128", "tokens of a sample")                                    \
    X("vocab", vocab, INTEGER, "0", "token numbers; 0 = 256 for text, 50257 for token files")      \
    X("batch", batch, INTEGER, "16", "samples of a global batch, over all ranks")                  \
    X("lr", rate, NUMBER, "1e-3", "highest learning rate")                                         \
    X("min-lr-ratio", min_ratio, NUMBER, "0.1", "lowest rate, as a part of the highest")           \
    X("warmup", warmup, INTEGER, "20", "steps until the highest rate")                             \
    X("weight-decay", decay, NUMBER, "0.1", "decoupled decay of matrices")                         \
    X("clip", clip, NUMBER, "1", "largest gradient norm; 0 = no limit")                            \
    X("seed", seed, INTEGER, "0", "of parameters and order; 0 = MUSTER_SEED or its default")       \
    X("dtype", dtype, TEXT, "", "no | fp16 | bf16 | fp8; empty = MUSTER_MIXED_PRECISION")          \
    X("accumulate", accumulate, INTEGER, "0", "batches per step; 0 = as the settings say")         \
    X("checkpoint-dir", checkpoint_dir, TEXT, "", "empty = MUSTER_CHECKPOINT_DIR, or none")        \
    X("checkpoint-every", checkpoint_every, TEXT, "", "\"200 steps\" or \"10m\"")                  \
    X("resume", resume, TEXT, "", "a checkpoint, or \"latest\"")                                   \
    X("log-file", log_file, TEXT, "", "metrics as JSON lines")                                     \
    X("log-every", log_every, INTEGER, "10", "steps between progress lines")                       \
    X("sample", sample, INTEGER, "200", "bytes of text to generate at the end")                    \
    X("prompt", prompt, TEXT, "And God said", "how that text begins")                              \
    X("temperature", temperature, NUMBER, "0.8", "0 = the likeliest byte each time")

typedef const char *gpt_TEXT;
typedef int64_t gpt_INTEGER;
typedef double gpt_NUMBER;

struct gpt_options {
#define X(name, member, kind, fallback, help) gpt_##kind member;
    GPT_OPTIONS(X)
#undef X
    bool print_config;
    bool help;
};

/* 0, or -1 after writing what is wrong to standard error. Texts point into argv. */
int gpt_options_parse(int argc, char **argv, struct gpt_options *ret);

void gpt_options_help(const char *program);

#endif
