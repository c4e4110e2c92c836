#include "libworker/graph/op/factor.h"

#include "libworker/graph/op/room.h"
#include "libworker/graph/op/tile.h"

size_t op_factor_bytes(const struct op_call *call, const struct op_tensor *x)
{
    bool fits = x->type == call->compute;
    return fits ? 0 : room_rounded((size_t)x->count * wk_dtype_bytes(call->compute));
}

size_t op_factor_input_bytes(const struct op_call *call, int i, bool backward)
{
    bool read = !backward || (op_keeps(call->node) & OP_IN(i));
    return read ? op_factor_bytes(call, &call->in[i]) : 0;
}

static void factor_convert(const struct op_call *call, const struct op_tensor *x, void *room)
{
    const struct kernel_table *kernels = call->pass->kernels;
    float tile[TILE_MAX];
    if (call->compute == WK_F32) {
        kernels->widen(room, x->type, x->data, (size_t)x->count);
        return;
    }
    int64_t most = x->type == WK_F32 ? x->count : TILE_MAX;
    for (int64_t i = 0; i < x->count; i += most) {
        int64_t n = x->count - i < most ? x->count - i : most;
        const float *from = tile_read(kernels, x, i, n, tile);
        kernels->narrow((uint16_t *)room + i, call->compute, from, (size_t)n);
    }
}

struct factor op_factor(const struct op_call *call, const struct op_tensor *x, int64_t stride,
                        uint8_t **room)
{
    void *data = x->data;
    if (x->type != call->compute) {
        data = room_take(room, x->count, wk_dtype_bytes(call->compute));
        factor_convert(call, x, data);
    }
    if (call->compute == WK_F32)
        return (struct factor){.data = data, .stride = stride};
    return (struct factor){.stride = stride, .low = data};
}

static void zero_rows(const struct op_call *call, const int64_t size[3], struct result c)
{
    for (int64_t i = 0; i < size[0] && c.keep == 0; i++)
        call->pass->kernels->fill(c.data + i * c.stride, 0, (size_t)size[1]);
}

void op_product(const struct op_call *call, const int64_t size[3], struct factor a, struct factor b,
                struct result c)
{
    struct low low = {.type = call->compute, .room = call->pass->room};
    c.low = call->compute == WK_F32 ? NULL : &low;
    if (size[2] == 0)
        zero_rows(call, size, c);
    else if (size[0] > 0 && size[1] > 0)
        product(call->pass->kernels, size, a, b, c);
}
