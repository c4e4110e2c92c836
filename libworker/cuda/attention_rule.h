/* Which kernels compute an attention on a GPU: cuDNN's or the module's own. Pure; any thread.
 *
 * cuDNN computes what its engines support (cudnn_attention.h): bf16, f16, full and causal masks.
 * All else is the own kernels': windows, packed documents, decoding with a cache, f32.
 * Gradients have the same bits on every run. With the setting `cudnn` they may not: cuDNN sums them
 * by atomics where a fixed order needs too much memory, or is not known.
 */
#ifndef CUDA_ATTENTION_RULE_H
#define CUDA_ATTENTION_RULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <worker/types.h>

/* The setting `attention`. */
enum attention_choice { ATTENTION_AUTO, ATTENTION_OWN, ATTENTION_CUDNN };

/* Of cuDNN's memory for sums in a fixed order: what GPT-2 with 64 samples of 1024 needs, 1.6 GB. */
#define ATTENTION_WORKSPACE_MAX ((size_t)2 << 30)

struct attention_facts {
    enum attention_choice choice;
    int cudnn; /* version: 91900 is 9.19.0; 0: there is none */
    int arch;  /* 90 is sm_90 */
    enum wk_dtype type;
    int64_t samples, heads, kv_heads, length, size;
    bool windowed, documents, decodes, backward;
};

struct attention_ruling {
    const char *why_own; /* NULL: cuDNN's. Else a clause: "the type is f32" */
    bool repeats;        /* of cuDNN's gradients: the same bits on every run */
};

struct attention_ruling attention_rule(const struct attention_facts *facts);

/* What cuDNN needs at most for gradients with the same bits on every run: those of all scores,
 * padded to tiles. Where groups share keys and values, also theirs of each head. Engines add less
 * than 1 KiB. */
size_t attention_workspace(const struct attention_facts *facts);

/* "auto", "own", "cudnn"; others are auto. */
enum attention_choice attention_choice_of(const char *setting);

#endif
