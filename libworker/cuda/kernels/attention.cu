#include "libworker/cuda/kernels/attention.h"

#include "libworker/cuda/kernels/attention_launch.h"
#include "libworker/cuda/kernels/attention_span.h"
#include "libworker/cuda/kernels/attention_tile.h"

enum {
    TILES_MAX = 1 << 30, /* of one launch */
    SMALLEST_OWN = 16,
    PARTS_MAX = 4,
};

/* What both kernels of backward read of each query: a warp for a row of a head. Where products are
 * narrow, dout becomes so in scratch memory. */
static __global__ void __launch_bounds__(LOOP_THREADS, 1)
    rows_kernel(const struct attention_call a, void *narrow)
{
    int64_t rows = a.samples * a.length * a.heads, lane = lane_index();
    struct attention_row *facts = (struct attention_row *)a.scratch;
    for (int64_t r = loop_first() / WARP; r < rows; r += loop_step() / WARP) {
        int64_t head = r % a.heads, sample = r / a.heads / a.length;
        int i = (int)(r / a.heads % a.length);
        int64_t dout = sample * a.dout.sample + i * a.dout.row + head * a.size;
        int64_t out = sample * a.out.sample + i * a.out.row + head * a.size;
        float sum = 0;
        for (int64_t d = lane; d < a.size; d += WARP) {
            float x = element_read(a.dout.at, a.dout.type, dout + d);
            sum += x * element_read(a.out.at, a.out.type, out + d);
            if (narrow)
                element_write(narrow, a.type, r * a.size + d, x);
        }
        sum = warp_sum(sum);
        int64_t at = (sample * a.heads + head) * a.length + i;
        if (lane == 0)
            facts[at] = attention_row{a.lse[at], sum, span_of(&a, sample, i)};
    }
}

/* One thread for an element; consecutive ones are side by side in both. */
static __global__ void __launch_bounds__(LOOP_THREADS) store_kernel(const struct attention_cache c)
{
    int64_t count = c.length * c.samples * c.width;
    int64_t first = c.past * c.samples * c.width;
    for (int64_t at = loop_first(); at < count; at += loop_step()) {
        int64_t column = at % c.width, sample = at / c.width % c.samples;
        int64_t from = sample * c.from.sample + at / c.width / c.samples * c.from.row + column;
        element_write(c.at, c.type, first + at, element_read(c.from.at, c.from.type, from));
    }
}

static bool fits_chunks(int64_t elements, enum wk_dtype type)
{
    return elements * (type == WK_F32 ? 4 : 2) % 16 == 0;
}

static void see_whether_whole(struct head_array *x, int size)
{
    x->whole = (uintptr_t)x->at % 16 == 0 && fits_chunks(size, x->type) &&
               fits_chunks(x->row, x->type) && fits_chunks(x->sample, x->type);
}

static void launch_all(struct attention_call *a, enum attention_kernel kernel, cudaStream_t stream)
{
    attention_launch *launch = a->type == WK_F32    ? attention_launch_f32
                               : a->type == WK_BF16 ? attention_launch_bf16
                                                    : attention_launch_f16;
    int64_t positions = a->length > a->keys ? a->length : a->keys;
    int64_t each = a->heads * (positions + SMALLEST_OWN) / SMALLEST_OWN * PARTS_MAX;
    int64_t at_once = each < TILES_MAX ? TILES_MAX / each : 1;
    for (int64_t s = 0; s < a->samples; s += at_once) {
        a->sample = s;
        launch(a, kernel, a->samples - s < at_once ? a->samples - s : at_once, stream);
    }
}

static bool is_nothing(const struct attention_call *a)
{
    return a->samples == 0 || a->heads == 0 || a->size == 0;
}

void attention_device_forward(const struct attention_call *call, cudaStream_t stream)
{
    struct attention_call a = *call;
    if (is_nothing(&a) || a.length == 0)
        return;
    see_whether_whole(&a.q, a.size);
    see_whether_whole(&a.k, a.size);
    see_whether_whole(&a.v, a.size);
    launch_all(&a, ATTENTION_FORWARD, stream);
}

static size_t rows_bytes(const struct attention_call *a)
{
    return (size_t)(a->samples * a->heads * a->length) * sizeof(struct attention_row);
}

static bool narrows(const struct attention_call *a)
{
    return a->dout.type != a->type;
}

size_t attention_device_scratch(const struct attention_call *a)
{
    size_t elements = (size_t)(a->samples * a->length * a->heads * a->size);
    return rows_bytes(a) + (narrows(a) ? elements * (a->type == WK_F32 ? 4 : 2) : 0);
}

void attention_device_backward(const struct attention_call *call, cudaStream_t stream)
{
    struct attention_call a = *call;
    int64_t rows = a.samples * a.length * a.heads;
    void *narrow = narrows(&a) ? (char *)a.scratch + rows_bytes(&a) : NULL;
    if (is_nothing(&a))
        return;
    if (rows > 0)
        GPU_LAUNCH(rows_kernel, loop_blocks(rows * WARP), dim3(LOOP_THREADS), 0, stream, a, narrow);
    if (narrow)
        a.dout = {narrow, a.type, a.heads * a.size, a.length * a.heads * a.size, false};
    see_whether_whole(&a.q, a.size);
    see_whether_whole(&a.k, a.size);
    see_whether_whole(&a.v, a.size);
    see_whether_whole(&a.dout, a.size);
    if (a.keys > 0)
        launch_all(&a, ATTENTION_KEYS, stream);
    if (a.length > 0)
        launch_all(&a, ATTENTION_QUERIES, stream);
}

void attention_device_store(const struct attention_cache *cache, cudaStream_t stream)
{
    int64_t count = cache->length * cache->samples * cache->width;
    if (count > 0)
        GPU_LAUNCH(store_kernel, loop_blocks(count), dim3(LOOP_THREADS), 0, stream, *cache);
}
