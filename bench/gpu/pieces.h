/* Single kernels of the module for GPUs, timed for ./dev gpu. piece_open finds the module as a
 * program's training does (device/module.h); the last two print JSON lines. They return 0, or 1
 * after a sentence on stderr. One thread. */
#ifndef GPU_PIECES_H
#define GPU_PIECES_H

#include <stdint.h>

#include "libworker/device/device.h"

struct piece {
    struct device *device;
    struct queue *queue;
};

int piece_open(struct piece *piece);
void piece_close(struct piece *piece);

/* Device memory full of `byte`; NULL, after a sentence, if there is none. */
void *piece_memory(struct piece *piece, size_t bytes, unsigned char byte);

/* Milliseconds of `enqueue`, the median of some rounds of several between two waits. Below 0, after
 * a sentence: the device has failed. */
double piece_ms(struct piece *piece, void (*enqueue)(struct piece *piece, void *arg), void *arg);

/* One step of AdamW with clip by norm over `count` parameters in f32, and their copy in bf16. */
int piece_adamw(struct piece *piece, int64_t count);

struct attention_shape {
    int64_t samples, length;
    int heads, kv_heads, size;
};

/* Causal attention in bf16, forward and backward. */
int piece_attention(struct piece *piece, const struct attention_shape *shape);

#endif
