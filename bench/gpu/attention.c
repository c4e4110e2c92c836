#include <stdio.h>
#include <string.h>

#include "bench/gpu/pieces.h"
#include "libworker/device/kernels.h"
#include "libworker/graph/launches.h"
#include "libworker/graph/op.h"
#include "libworker/graph/op/attention.h"

/* Memory of the call. */
enum { QKV, OUT, LSE, DQKV, DOUT, SCRATCH, ARRAYS };

struct attention {
    const struct device_kernel *kernel;
    struct attention_attributes attributes;
    struct node node;
    struct op_args args;
    void *memory[ARRAYS];
    size_t bytes[ARRAYS];
};

static const struct op_row *row_of(const char *name)
{
    int i = 0;
    while (op_row_at(i) && strcmp(op_row_at(i)->name, name) != 0)
        i++;
    return op_row_at(i);
}

static struct op_tensor tensor_of(enum wk_dtype type, const int64_t shape[3])
{
    struct op_tensor x = {.type = type, .dims = 3, .count = shape[0] * shape[1] * shape[2]};
    memcpy(x.shape, shape, 3 * sizeof(*shape));
    return x;
}

static void describe(struct attention *a, const struct attention_shape *s)
{
    int64_t vectors = s->heads + 2 * (int64_t)s->kv_heads;
    const int64_t in[] = {s->samples, s->length, vectors * s->size};
    const int64_t out[] = {s->samples, s->length, (int64_t)s->heads * s->size};
    const int64_t lse[] = {s->samples, s->heads, s->length};
    struct op_call *call = &a->args.call;
    a->attributes = (struct attention_attributes){s->heads, s->kv_heads, true, 0, 0};
    a->node = (struct node){
        .row = row_of("attention"), .attributes = &a->attributes, .n_in = 1, .n_out = 2};
    a->args.pass = (struct op_pass){.device = "cuda", .trains = true, .samples = s->samples};
    call->node = &a->node;
    call->compute = WK_BF16;
    call->in[0] = tensor_of(WK_BF16, in);
    call->out[0] = tensor_of(WK_BF16, out);
    call->out[ATTENTION_LSE] = tensor_of(WK_F32, lse);
    call->d_in[0] = tensor_of(WK_F32, in);
    call->d_out = tensor_of(WK_F32, out);
}

static int allocate(struct piece *piece, struct attention *a)
{
    struct op_call *call = &a->args.call;
    struct op_tensor *const tensors[] = {&call->in[0], &call->out[0], &call->out[ATTENTION_LSE],
                                         &call->d_in[0], &call->d_out};
    for (int i = 0; i < SCRATCH; i++) {
        a->bytes[i] = (size_t)tensors[i]->count * wk_dtype_bytes(tensors[i]->type);
        a->memory[i] = piece_memory(piece, a->bytes[i], 0x3c);
        tensors[i]->data = a->memory[i];
        if (!a->memory[i])
            return 1;
    }
    for (int backward = 0; backward < 2 && a->kernel->scratch_bytes; backward++) {
        a->args.backward = backward;
        size_t bytes = a->kernel->scratch_bytes(piece->device, &a->args);
        a->bytes[SCRATCH] = bytes > a->bytes[SCRATCH] ? bytes : a->bytes[SCRATCH];
    }
    call->scratch = a->memory[SCRATCH] = piece_memory(piece, a->bytes[SCRATCH], 0);
    return a->bytes[SCRATCH] && !call->scratch;
}

static void enqueue(struct piece *piece, void *arg)
{
    const struct attention *a = arg;
    a->kernel->run(piece->queue, &a->args);
}

/* Two products forward and five backward, of the half that the mask leaves. */
static double flop_of(const struct attention_shape *s, bool backward)
{
    double one = (double)(s->samples * s->heads * s->size) * (double)s->length * (double)s->length;
    return (backward ? 5 : 2) * one;
}

static int report(struct piece *piece, struct attention *a, const struct attention_shape *s)
{
    for (int backward = 0; backward < 2; backward++) {
        a->args.backward = backward;
        double ms = piece_ms(piece, enqueue, a);
        if (ms < 0)
            return 1;
        printf("{\"piece\": \"attention %s\", \"shape\": \"%lldx%lldx%d/%dx%d\", \"ms\": %.4f, "
               "\"tflops\": %.4g}\n",
               backward ? "backward" : "forward", (long long)s->samples, (long long)s->length,
               s->heads, s->kv_heads, s->size, ms, flop_of(s, backward) / ms * 1e-9);
        (void)fflush(stdout);
    }
    return 0;
}

int piece_attention(struct piece *piece, const struct attention_shape *shape)
{
    struct attention a = {.kernel = device_kernel_find(piece->device, "attention")};
    if (!a.kernel) {
        fprintf(stderr, "bench_gpu_pieces: the device has no kernel for attention\n");
        return 1;
    }
    describe(&a, shape);
    int rc = allocate(piece, &a) || report(piece, &a, shape);
    for (int i = 0; i < ARRAYS; i++)
        device_memory_free(piece->device, a.memory[i], a.bytes[i]);
    return rc;
}
