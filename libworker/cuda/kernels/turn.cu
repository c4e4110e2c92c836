#include "libworker/cuda/kernels/turn.h"

#include "libworker/cuda/kernels/divider.h"
#include "libworker/cuda/kernels/grid.h"
#include "libworker/cuda/kernels/span.h"

namespace
{

enum { TILE = 32, STRIDES = 8 };

/* Row r and column c of matrix m: the result at r * apart + c, the source at c * stride + r. */
struct matrices {
    void *to;
    const void *from;
    enum wk_dtype to_type, from_type;
    bool add;
    int64_t rows, columns, apart, stride;
    struct divider row_tiles, column_tiles; /* of a matrix */
    int64_t tiles;                          /* of all */
    int dims;                               /* outside the matrix */
    struct divider size[MOVE_DIMS_MAX];
    int64_t to_stride[MOVE_DIMS_MAX], from_stride[MOVE_DIMS_MAX];
};

/* Elements as they are. */
template <class T> struct raw {
    typedef T type;
    static __device__ T get(const struct matrices &m, int64_t i)
    {
        return ((const T *)m.from)[i];
    }
    static __device__ void put(const struct matrices &m, int64_t i, T x)
    {
        ((T *)m.to)[i] = x;
    }
};

/* Values that change their type, or are added. */
struct values {
    typedef float type;
    static __device__ float get(const struct matrices &m, int64_t i)
    {
        struct gpu_value from;
        from.at = (void *)(uintptr_t)m.from;
        from.type = m.from_type;
        return value_read(from, i);
    }
    static __device__ void put(const struct matrices &m, int64_t i, float x)
    {
        struct gpu_value to;
        to.at = m.to;
        to.type = m.to_type;
        value_write(to, i, m.add ? value_read(to, i) + x : x);
    }
};

/* Where a tile begins in its matrix, and the matrix in both arrays. */
struct place {
    int64_t row, column, to, from;
};

static __device__ __forceinline__ struct place place_of(const struct matrices &m, int64_t tile)
{
    struct place p;
    int64_t rest = divide(m.column_tiles, tile);
    p.column = (tile - rest * m.column_tiles.by) * TILE;
    int64_t matrix = divide(m.row_tiles, rest);
    p.row = (rest - matrix * m.row_tiles.by) * TILE;
    p.to = p.from = 0;
    GPU_UNROLL
    for (int i = MOVE_DIMS_MAX - 1; i >= 0; i--) {
        if (i >= m.dims)
            continue;
        int64_t next = divide(m.size[i], matrix), at = matrix - next * m.size[i].by;
        p.to += at * m.to_stride[i];
        p.from += at * m.from_stride[i];
        matrix = next;
    }
    return p;
}

template <class Element> __global__ void turn_tiles(struct matrices m)
{
    typedef typename Element::type T;
    GPU_SHARED(T, room, TILE * (TILE + 1)); /* a column of it is in different banks */
    int side = (int)threadIdx.x, down = (int)threadIdx.y;
    for (int64_t tile = blockIdx.x; tile < m.tiles; tile += gridDim.x) {
        struct place p = place_of(m, tile);
        for (int i = down; i < TILE; i += STRIDES) {
            int64_t row = p.row + side, column = p.column + i;
            if (row < m.rows && column < m.columns)
                room[i * (TILE + 1) + side] = Element::get(m, p.from + column * m.stride + row);
        }
        __syncthreads();
        for (int i = down; i < TILE; i += STRIDES) {
            int64_t row = p.row + i, column = p.column + side;
            if (row < m.rows && column < m.columns)
                Element::put(m, p.to + row * m.apart + column, room[side * (TILE + 1) + i]);
        }
        __syncthreads();
    }
}

int64_t tiles_of(int64_t size)
{
    return (size + TILE - 1) / TILE;
}

struct matrices matrices_of(const struct gpu_move *move, const struct gpu_turn *t)
{
    struct matrices m = {};
    int64_t apart[MOVE_DIMS_MAX] = {}, next = 1, outside = 1;
    int last = t->dims - 1, rows = 0;
    m.to = move->to.at;
    m.from = move->from.at;
    m.to_type = move->to.type;
    m.from_type = move->from.type;
    m.add = move->add;
    for (int i = last; i >= 0; i--) {
        apart[i] = next;
        next *= t->size[i];
        rows = t->stride[i] == 1 ? i : rows;
    }
    m.rows = t->size[rows];
    m.apart = apart[rows];
    m.columns = t->size[last];
    m.stride = t->stride[last];
    for (int i = 0; i < last; i++) {
        if (i == rows)
            continue;
        m.size[m.dims] = divider_of(t->size[i]);
        m.to_stride[m.dims] = apart[i];
        m.from_stride[m.dims++] = t->stride[i];
        outside *= t->size[i];
    }
    m.row_tiles = divider_of(tiles_of(m.rows));
    m.column_tiles = divider_of(tiles_of(m.columns));
    m.tiles = outside * tiles_of(m.rows) * tiles_of(m.columns);
    return m;
}

template <class Element> void launch(const struct matrices &m, cudaStream_t stream)
{
    GPU_LAUNCH(turn_tiles<Element>, grid_of(m.tiles, 1), dim3(TILE, STRIDES), 0, stream, m);
}

} // namespace

void turn_matrices(const struct gpu_move *move, const struct gpu_turn *turn, cudaStream_t stream)
{
    struct matrices m = matrices_of(move, turn);
    if (!m.tiles)
        return;
    if (move->to.type != move->from.type || move->add)
        return launch<values>(m, stream);
    switch (move->to.type) {
    case WK_BOOL:
    case WK_U8:
        return launch<raw<uint8_t>>(m, stream);
    case WK_F16:
    case WK_BF16:
        return launch<raw<uint16_t>>(m, stream);
    case WK_F32:
    case WK_I32:
        return launch<raw<uint32_t>>(m, stream);
    case WK_F64:
    case WK_I64:
        return launch<raw<uint64_t>>(m, stream);
    }
}
