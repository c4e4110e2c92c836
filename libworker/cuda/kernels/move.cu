#include "libworker/cuda/kernels/move.h"

#include "libworker/cuda/gpu.h"
#include "libworker/cuda/kernels/divider.h"
#include "libworker/cuda/kernels/grid.h"
#include "libworker/cuda/kernels/span.h"
#include "libworker/cuda/kernels/turn.h"

namespace
{

enum { THREADS = 256 };

struct apart {
    __device__ int64_t source(int64_t row) const
    {
        return row;
    }
};

struct part {
    struct divider all;
    int64_t first, count;
    __device__ int64_t source(int64_t row) const
    {
        int64_t outer = divide(all, row), place = row - outer * all.by - first;
        return place < 0 || place >= count ? -1 : outer * count + place;
    }
};

struct numbered {
    const int32_t *index;
    struct divider n;
    int64_t rows;
    __device__ int64_t source(int64_t row) const
    {
        int64_t number = index[row];
        return number < 0 || number >= rows ? -1 : divide(n, row) * rows + number;
    }
};

struct placed {
    const int32_t *starts;
    struct divider length;
    int64_t past;
    __device__ int64_t source(int64_t row) const
    {
        int64_t place = row - divide(length, row) * length.by;
        return past + place - (starts ? starts[row] : 0);
    }
};

struct window {
    struct divider length, each;
    __device__ int64_t source(int64_t row) const
    {
        int64_t position = divide(each, row), back = each.by - 1 - (row - position * each.by);
        int64_t place = position - divide(length, position) * length.by;
        return place < back ? -1 : position - back;
    }
};

struct turned {
    int dims;
    struct divider size[MOVE_DIMS_MAX];
    int64_t stride[MOVE_DIMS_MAX];
    __device__ int64_t source(int64_t row) const
    {
        int64_t at = 0;
        GPU_UNROLL
        for (int i = MOVE_DIMS_MAX - 1; i >= 0; i--) {
            if (i >= dims)
                continue;
            int64_t rest = divide(size[i], row);
            at += (row - rest * size[i].by) * stride[i];
            row = rest;
        }
        return at;
    }
};

/* What one thread moves at a time, and a move in such units. */
struct units {
    void *to;
    const void *from;
    int bytes;    /* 16, 8, 4, 2 or 1; 0: `elements` values that change their type, or are added */
    int elements; /* SPAN or 1 */
    enum wk_dtype to_type, from_type;
    bool add;
    struct divider span;
    int64_t count, to_first, to_apart, from_first, from_apart;
};

template <class T>
static __device__ __forceinline__ void raw_move(const struct units &u, int64_t to, int64_t from)
{
    T none = {};
    ((T *)u.to)[to] = from < 0 ? none : ((const T *)u.from)[from];
}

static __device__ __forceinline__ void line_move(const struct units &u, int64_t to, int64_t from)
{
    uint4 none = {};
    line_write((uint4 *)u.to + to, from < 0 ? none : line_read((const uint4 *)u.from + from));
}

static __device__ __forceinline__ struct gpu_value value_in(void *at, enum wk_dtype type)
{
    struct gpu_value value;
    value.at = at;
    value.type = type;
    return value;
}

static __device__ __forceinline__ struct span span_in(int64_t first, int count)
{
    struct span s;
    s.first = first;
    s.stride = 1;
    s.count = count;
    return s;
}

static __device__ __forceinline__ void values_move(const struct units &u, int64_t to, int64_t from)
{
    struct gpu_value target = value_in(u.to, u.to_type);
    struct gpu_value source = value_in((void *)(uintptr_t)u.from, u.from_type);
    struct span there = span_in(to * u.elements, u.elements);
    float x[SPAN], before[SPAN];
    if (from < 0 && u.add)
        return;
    GPU_UNROLL
    for (int j = 0; j < SPAN; j++)
        x[j] = 0;
    if (from >= 0)
        span_read(span_in(from * u.elements, u.elements), source, 0, x);
    if (u.add) {
        span_read(there, target, 0, before);
        GPU_UNROLL
        for (int j = 0; j < SPAN; j++)
            x[j] += before[j];
    }
    span_write(there, target, 0, x);
}

static __device__ __forceinline__ void unit_move(const struct units &u, int64_t to, int64_t from)
{
    if (u.bytes == 16)
        line_move(u, to, from);
    else if (u.bytes == 8)
        raw_move<uint64_t>(u, to, from);
    else if (u.bytes == 4)
        raw_move<uint32_t>(u, to, from);
    else if (u.bytes == 2)
        raw_move<uint16_t>(u, to, from);
    else if (u.bytes == 1)
        raw_move<uint8_t>(u, to, from);
    else
        values_move(u, to, from);
}

template <class Rows> __global__ void move_rows(Rows rows, struct units u)
{
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < u.count;
         i += (int64_t)gridDim.x * THREADS) {
        int64_t row = divide(u.span, i), within = i - row * u.span.by, source = rows.source(row);
        int64_t from = source < 0 ? -1 : u.from_first + source * u.from_apart + within;
        unit_move(u, u.to_first + row * u.to_apart + within, from);
    }
}

int64_t bytes_of(enum wk_dtype type)
{
    switch (type) {
    case WK_BOOL:
    case WK_U8:
        return 1;
    case WK_F16:
    case WK_BF16:
        return 2;
    case WK_F32:
    case WK_I32:
        return 4;
    case WK_F64:
    case WK_I64:
        return 8;
    }
    return 1;
}

/* The largest unit of at most 16 bytes that all places and addresses are multiples of. */
int unit_of(const struct gpu_move *m)
{
    uint64_t places =
        (uint64_t)(m->span | m->to_first | m->to_apart | m->from_first | m->from_apart) *
        (uint64_t)bytes_of(m->to.type);
    places |= (uint64_t)(uintptr_t)m->to.at | (uint64_t)(uintptr_t)m->from.at | 16;
    return (int)(places & -places);
}

struct units units_of(const struct gpu_move *m)
{
    struct units u = {};
    u.to = m->to.at;
    u.from = m->from.at;
    u.to_type = m->to.type;
    u.from_type = m->from.type;
    u.add = m->add;
    int64_t each = 1, cut = 1; /* units of an element, elements of a unit */
    if (m->to.type == m->from.type && !m->add) {
        u.bytes = unit_of(m);
        int64_t element = bytes_of(m->to.type);
        each = element > u.bytes ? element / u.bytes : 1;
        cut = element > u.bytes ? 1 : u.bytes / element;
    } else {
        int64_t places = m->span | m->to_first | m->to_apart | m->from_first | m->from_apart;
        u.elements = places % SPAN ? 1 : (int)SPAN;
        cut = u.elements;
    }
    u.span = divider_of(m->span * each / cut);
    u.count = m->rows * u.span.by;
    u.to_first = m->to_first * each / cut;
    u.to_apart = m->to_apart * each / cut;
    u.from_first = m->from_first * each / cut;
    u.from_apart = m->from_apart * each / cut;
    return u;
}

template <class Rows> void launch(const Rows &rows, const struct gpu_move *m, cudaStream_t stream)
{
    if (!m->rows || !m->span)
        return;
    struct units u = units_of(m);
    GPU_LAUNCH(move_rows<Rows>, grid_of(u.count, THREADS), THREADS, 0, stream, rows, u);
}

} // namespace

extern "C" void gpu_move_apart(const struct gpu_move *move, cudaStream_t stream)
{
    struct apart rows;
    launch(rows, move, stream);
}

extern "C" void gpu_move_part(const struct gpu_move *move, const struct gpu_part *p,
                              cudaStream_t stream)
{
    struct part rows = {divider_of(p->all), p->first, p->count};
    launch(rows, move, stream);
}

extern "C" void gpu_move_numbered(const struct gpu_move *move, const struct gpu_numbered *n,
                                  cudaStream_t stream)
{
    struct numbered rows = {n->index, divider_of(n->n), n->rows};
    launch(rows, move, stream);
}

extern "C" void gpu_move_placed(const struct gpu_move *move, const struct gpu_placed *p,
                                cudaStream_t stream)
{
    struct placed rows = {p->starts, divider_of(p->length), p->past};
    launch(rows, move, stream);
}

extern "C" void gpu_move_window(const struct gpu_move *move, int64_t length, int64_t each,
                                cudaStream_t stream)
{
    struct window rows = {divider_of(length), divider_of(each)};
    launch(rows, move, stream);
}

/* Dimensions of size 1 left out, neighbours that stay together as one. */
static struct gpu_turn turn_joined(const struct gpu_turn *turn)
{
    struct gpu_turn t = {};
    for (int i = 0; i < turn->dims; i++) {
        int64_t size = turn->size[i], stride = turn->stride[i];
        if (size == 1)
            continue;
        if (t.dims && t.stride[t.dims - 1] == size * stride) {
            t.size[t.dims - 1] *= size;
            t.stride[t.dims - 1] = stride;
            continue;
        }
        t.size[t.dims] = size;
        t.stride[t.dims++] = stride;
    }
    return t;
}

extern "C" void gpu_move_turned(const struct gpu_move *move, const struct gpu_turn *turn,
                                cudaStream_t stream)
{
    struct gpu_turn t = turn_joined(turn);
    struct gpu_move m = *move;
    m.rows = m.span = 1;
    m.to_first = m.from_first = 0;
    if (t.dims && t.stride[t.dims - 1] != 1)
        return turn_matrices(&m, &t, stream);
    if (t.dims)
        m.span = t.size[--t.dims];
    struct turned rows = {};
    rows.dims = t.dims;
    for (int i = 0; i < t.dims; i++) {
        rows.size[i] = divider_of(t.size[i]);
        rows.stride[i] = t.stride[i] / m.span; /* the source is of whole rows, too */
        m.rows *= t.size[i];
    }
    m.to_apart = m.from_apart = m.span;
    launch(rows, &m, stream);
}
