#include "libworker/cuda/kernels/embedding.h"

#include "libworker/cuda/gpu.h"
#include "libworker/cuda/kernels/elements.h"
#include "libworker/cuda/kernels/rows.h"

namespace
{

enum {
    TILE = 1024, /* keys that a block sorts in its shared memory */
    TILE_THREADS = TILE / 2,
    SUM_THREADS = 128,
};

__global__ void rows_look_up(struct gpu_lookup l, struct gpu_value table, struct gpu_value out)
{
    for (int64_t row = rows_first(); row < l.rows; row += rows_step()) {
        int64_t from = (int64_t)l.index[row] * l.width;
        for (int64_t at = 0; at < l.width; at += span_step()) {
            struct span s = span_at(at, l.width);
            float x[SPAN];
            span_read(s, table, from, x);
            span_write(s, out, row * l.width, x);
        }
    }
}

/* Keys are sorted by Batcher's bitonic network (1968): stages of a size, in steps of a distance. */
static __device__ __forceinline__ void key_order(uint64_t *low, uint64_t *high, bool up)
{
    uint64_t a = *low, b = *high;
    if ((a > b) == up) {
        *low = b;
        *high = a;
    }
}

/* Steps of a stage whose pairs are inside the block's tile; `first` is the tile's place. */
static __device__ __forceinline__ void tile_steps(uint64_t *tile, int64_t first, int64_t size,
                                                  int distance)
{
    for (; distance > 0; distance /= 2) {
        __syncthreads();
        int pair = (int)threadIdx.x, low = 2 * distance * (pair / distance) + pair % distance;
        key_order(&tile[low], &tile[low + distance], ((first + low) & size) == 0);
    }
    __syncthreads();
}

__global__ void keys_sort_tiles(struct gpu_lookup l, uint64_t *keys)
{
    GPU_SHARED(uint64_t, tile, TILE);
    int64_t first = (int64_t)blockIdx.x * TILE;
    for (int i = (int)threadIdx.x; i < TILE; i += TILE_THREADS) {
        int64_t row = first + i;
        tile[i] =
            row < l.rows ? (uint64_t)(uint32_t)l.index[row] << 32 | (uint64_t)row : UINT64_MAX;
    }
    for (int size = 2; size <= TILE; size *= 2)
        tile_steps(tile, first, size, size / 2);
    for (int i = (int)threadIdx.x; i < TILE; i += TILE_THREADS)
        keys[first + i] = tile[i];
}

/* One step between tiles. */
__global__ void keys_step(uint64_t *keys, int64_t size, int64_t distance)
{
    int64_t pair = (int64_t)blockIdx.x * TILE_THREADS + threadIdx.x;
    int64_t low = 2 * distance * (pair / distance) + pair % distance;
    key_order(&keys[low], &keys[low + distance], (low & size) == 0);
}

/* The rest of a stage. */
__global__ void keys_merge_tiles(uint64_t *keys, int64_t size)
{
    GPU_SHARED(uint64_t, tile, TILE);
    int64_t first = (int64_t)blockIdx.x * TILE;
    for (int i = (int)threadIdx.x; i < TILE; i += TILE_THREADS)
        tile[i] = keys[first + i];
    tile_steps(tile, first, size, TILE / 2);
    for (int i = (int)threadIdx.x; i < TILE; i += TILE_THREADS)
        keys[first + i] = tile[i];
}

static __device__ __forceinline__ int64_t number_of(uint64_t key)
{
    return (int64_t)(key >> 32);
}

/* The sorted rows, in chunks. Of a number that is in several chunks each has a piece: `heads` of a
 * chunk that it does not begin in, `tails` of the one where it does. */
struct sum_args {
    const uint64_t *keys;
    int64_t rows, width;
    const float *dout;
    float *dtable;
    float *heads, *tails; /* [chunks, width] */
};

/* Whether sorted rows i and i + 1 have the same number. */
static __device__ __forceinline__ bool goes_on(const struct sum_args &a, int64_t i)
{
    return i >= 0 && i + 1 < a.rows && number_of(a.keys[i]) == number_of(a.keys[i + 1]);
}

__global__ void chunk_sums(struct sum_args a)
{
    int64_t first = (int64_t)blockIdx.x * EMBEDDING_CHUNK, end = first + EMBEDDING_CHUNK;
    end = end < a.rows ? end : a.rows;
    for (int64_t column = threadIdx.x; column < a.width; column += blockDim.x) {
        bool begun_before = goes_on(a, first - 1);
        float sum = 0;
        for (int64_t i = first; i < end; i++) {
            uint64_t key = a.keys[i];
            sum += a.dout[(int64_t)(uint32_t)key * a.width + column];
            bool more = goes_on(a, i);
            if (more && i + 1 < end)
                continue;
            if (begun_before)
                a.heads[(int64_t)blockIdx.x * a.width + column] = sum;
            else if (more)
                a.tails[(int64_t)blockIdx.x * a.width + column] = sum;
            else
                a.dtable[number_of(key) * a.width + column] += sum;
            begun_before = false;
            sum = 0;
        }
    }
}

/* A number that begins in the block's chunk and goes on after it: its pieces in order. */
__global__ void chunk_joins(struct sum_args a)
{
    int64_t first = (int64_t)blockIdx.x * EMBEDDING_CHUNK, last = first + EMBEDDING_CHUNK - 1;
    if (!goes_on(a, last))
        return;
    int64_t number = number_of(a.keys[last]);
    if (goes_on(a, first - 1) && number_of(a.keys[first]) == number)
        return; /* it began before this chunk */
    for (int64_t column = threadIdx.x; column < a.width; column += blockDim.x) {
        float sum = a.tails[(int64_t)blockIdx.x * a.width + column];
        int64_t chunk = blockIdx.x;
        do {
            chunk++;
            sum += a.heads[chunk * a.width + column];
            last += EMBEDDING_CHUNK;
        } while (goes_on(a, last) && number_of(a.keys[last]) == number);
        a.dtable[number * a.width + column] += sum;
    }
}

/* A power of two of tiles. */
int64_t keys_of(int64_t rows)
{
    int64_t keys = TILE;
    while (keys < rows)
        keys *= 2;
    return keys;
}

int64_t chunks_of(int64_t rows)
{
    return (rows + EMBEDDING_CHUNK - 1) / EMBEDDING_CHUNK;
}

void sort_keys(const struct gpu_lookup *l, uint64_t *keys, cudaStream_t stream)
{
    int64_t count = keys_of(l->rows);
    dim3 tiles((unsigned)(count / TILE)), threads(TILE_THREADS);
    GPU_LAUNCH(keys_sort_tiles, tiles, threads, 0, stream, *l, keys);
    for (int64_t size = 2 * TILE; size <= count; size *= 2) {
        for (int64_t distance = size / 2; distance >= TILE; distance /= 2)
            GPU_LAUNCH(keys_step, tiles, threads, 0, stream, keys, size, distance);
        GPU_LAUNCH(keys_merge_tiles, tiles, threads, 0, stream, keys, size);
    }
}

} // namespace

extern "C" void gpu_embedding_forward(const struct gpu_lookup *l, struct gpu_value table,
                                      struct gpu_value out, cudaStream_t stream)
{
    struct rows_shape shape = rows_shape_of(l->rows, l->width);
    if (l->rows && l->width)
        GPU_LAUNCH(rows_look_up, shape.grid, shape.block, 0, stream, *l, table, out);
}

extern "C" size_t gpu_embedding_bytes(int64_t rows, int64_t width)
{
    return (size_t)keys_of(rows) * sizeof(uint64_t) +
           2 * (size_t)chunks_of(rows) * (size_t)width * sizeof(float);
}

extern "C" void gpu_embedding_backward(const struct gpu_lookup *l,
                                       const struct gpu_lookup_gradients *g, cudaStream_t stream)
{
    uint64_t *keys = (uint64_t *)g->scratch;
    float *heads = (float *)(keys + keys_of(l->rows));
    struct sum_args a = {keys,
                         l->rows,
                         l->width,
                         g->dout,
                         g->dtable.at,
                         heads,
                         heads + chunks_of(l->rows) * l->width};
    if (!g->dtable.add)
        gpu_zero(g->dtable.at, (size_t)(g->table_rows * l->width) * sizeof(float), stream);
    if (l->rows == 0 || l->width == 0)
        return;
    sort_keys(l, keys, stream);
    dim3 chunks((unsigned)chunks_of(l->rows)), threads(SUM_THREADS);
    GPU_LAUNCH(chunk_sums, chunks, threads, 0, stream, a);
    GPU_LAUNCH(chunk_joins, chunks, threads, 0, stream, a);
}
