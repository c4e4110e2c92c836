/* Tiles of attention in shared memory, and the sizes of blocks. An engine is a type of elements
 * with the two products of a warp on tiles (attention_low.h, attention_float.h).
 *
 * A warp has 16 rows of a result. Lanes have its elements as tensor cores do (mma.h), and the array
 * of a lane is acc[column / 8][2 * (row / 8) + column % 2].
 * A row of a tile is chunks of 16 bytes. Chunk c is at place c ^ (row & 7), so chunks c of eight
 * rows are in different banks of shared memory. Device code. */
#ifndef CUDA_KERNELS_ATTENTION_TILE_H
#define CUDA_KERNELS_ATTENTION_TILE_H

#include "libworker/cuda/kernels/async.h"
#include "libworker/cuda/kernels/attention.h"
#include "libworker/cuda/kernels/element.h"
#include "libworker/cuda/kernels/warp.h"

struct alignas(16) chunk {
    uint32_t words[4];
};

/* The sizes of blocks, by the bytes of a row: 48 KiB of shared memory at most. */
template <class E, int D> struct attention_sizes {
    enum {
        ROW_BYTES = D * (int)sizeof(typename E::element),
        CHUNKS = ROW_BYTES / 16,
        OWN = ROW_BYTES <= 256 ? 64 : 16384 / ROW_BYTES,  /* rows of the block */
        FORWARD = OWN,                                    /* keys at a time */
        OTHER = ROW_BYTES <= 256 ? 32 : 8192 / ROW_BYTES, /* backward: of the other side */
        THREADS = 2 * OWN,                                /* a warp has 16 rows */
        /* A block has a part of the columns of what it sums up, so that it fits the registers. */
        ROW_PARTS = ROW_BYTES <= 512 ? 1 : 4,               /* of out and dq */
        KEY_PARTS = ROW_BYTES <= 256 ? 1 : ROW_BYTES / 256, /* of dk and dv */
    };
};

template <int D, class E> static __device__ inline chunk *tile_place(chunk *tile, int row, int c)
{
    enum { CHUNKS = attention_sizes<E, D>::CHUNKS };
    return &tile[row * CHUNKS + (c ^ (row & 7))];
}

static __device__ inline int lane_index(void)
{
    return (int)(threadIdx.x % WARP);
}

static __device__ inline void copies_wait(void)
{
    gpu_copy_commit();
    gpu_copy_wait<0>();
}

/* Where a tile comes from: `rows` rows from `first` on, of which others are zeros. */
struct tile_source {
    const struct head_array *array;
    int64_t first; /* element */
    int rows, size;
};

template <class E, int D>
static __device__ inline chunk chunk_read(const struct tile_source *s, int64_t at, int column)
{
    enum { EACH = 16 / sizeof(typename E::element) };
    union {
        chunk all;
        typename E::element each[EACH];
    } u;
    GPU_UNROLL
    for (int i = 0; i < EACH; i++) {
        bool is_there = column + i < s->size;
        u.each[i] = gpu_from<typename E::element>(
            is_there ? element_read(s->array->at, s->array->type, at + i) : 0.0f);
    }
    return u.all;
}

/* By all threads of the block; there after copies_wait and a barrier. */
template <class E, int D>
static __device__ inline void tile_load(chunk *tile, int tile_rows, struct tile_source s)
{
    enum { EACH = 16 / sizeof(typename E::element), CHUNKS = attention_sizes<E, D>::CHUNKS };
    const char *from = (const char *)s.array->at;
    bool whole = s.array->whole && s.array->type == E::type;
    for (int i = (int)threadIdx.x; i < tile_rows * CHUNKS; i += (int)blockDim.x) {
        int row = i / CHUNKS, column = i % CHUNKS * EACH;
        bool is_there = row < s.rows && column < s.size;
        int64_t at = is_there ? s.first + row * s.array->row + column : 0;
        chunk *to = tile_place<D, E>(tile, row, i % CHUNKS);
        if (whole)
            gpu_copy_async(to, from + at * (int64_t)sizeof(typename E::element), is_there ? 16 : 0);
        else if (is_there)
            *to = chunk_read<E, D>(&s, at, column);
        else
            *to = chunk{{0, 0, 0, 0}};
    }
}

#endif
