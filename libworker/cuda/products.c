#include "libworker/cuda/products.h"

#include "libworker/graph/op/room.h"

enum { WORKSPACE_ALIGN = 256 };

static size_t bytes_of(enum wk_dtype type, int64_t count)
{
    return (size_t)count * (type == WK_F32 ? sizeof(float) : sizeof(uint16_t));
}

/* Scratch memory is aligned to LAYOUT_ALIGN_BYTES, which may be less. */
size_t products_workspace_bytes(size_t workspace_bytes)
{
    return workspace_bytes ? room_rounded(workspace_bytes + WORKSPACE_ALIGN) : 0;
}

struct products products_begin(const struct op_call *call, struct cuda_queue *queue,
                               size_t workspace_bytes)
{
    uintptr_t first = (uintptr_t)call->scratch;
    uintptr_t aligned = (first + WORKSPACE_ALIGN - 1) / WORKSPACE_ALIGN * WORKSPACE_ALIGN;
    return (struct products){
        .call = call,
        .queue = queue,
        .room = (uint8_t *)call->scratch + products_workspace_bytes(workspace_bytes),
        .workspace = workspace_bytes ? (uint8_t *)call->scratch + (aligned - first) : NULL,
        .workspace_bytes = workspace_bytes,
    };
}

size_t products_taken(enum wk_dtype type, int64_t count)
{
    return room_rounded(bytes_of(type, count));
}

void *products_take(struct products *products, enum wk_dtype type, int64_t count)
{
    void *part = products->room;
    products->room += products_taken(type, count);
    return part;
}

size_t products_factor_bytes(const struct op_call *call, const struct op_tensor *x)
{
    return x->type == call->compute ? 0 : products_taken(call->compute, x->count);
}

void products_convert(const struct products *products, struct typed_array to,
                      struct typed_array from, int64_t count)
{
    if (count > 0)
        factor_convert(to, from, count, products->queue->stream);
    products_check(products, "convert a factor");
}

const void *products_factor(struct products *products, const struct op_tensor *x)
{
    enum wk_dtype compute = products->call->compute;
    if (x->type == compute)
        return x->data;
    void *to = products_take(products, compute, x->count);
    products_convert(products, (struct typed_array){to, compute},
                     (struct typed_array){x->data, x->type}, x->count);
    return to;
}

/* Rows of zeros, `batch` times. */
static void clear_result(const struct products *products, const struct lt_product *p)
{
    bool whole = p->d_stride == p->n && (p->batch == 1 || p->d_each == p->m * p->n);
    int64_t rows = whole ? 1 : p->batch * p->m;
    size_t bytes = bytes_of(p->result, whole ? p->batch * p->m * p->n : p->n);
    for (int64_t i = 0; i < rows; i++) {
        int64_t at = i / p->m * p->d_each + i % p->m * p->d_stride;
        void *to = (uint8_t *)p->d + bytes_of(p->result, at);
        (void)cuda_check(products->queue, cudaMemsetAsync(to, 0, bytes, products->queue->stream),
                         "clear a product");
    }
}

void products_run(const struct products *products, struct lt_product p)
{
    p.type = products->call->compute;
    p.batch = p.batch ? p.batch : 1;
    p.alpha = 1;
    if (p.m == 0 || p.n == 0)
        return;
    if (p.k > 0)
        lt_product(products->queue, &p, products->workspace, products->workspace_bytes);
    else if (p.beta == 0)
        clear_result(products, &p);
}

void products_check(const struct products *products, const char *what)
{
    (void)cuda_check(products->queue, cudaGetLastError(), what);
}
