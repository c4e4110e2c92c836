#include "tests/cuda/attention_scene.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libworker/device/kernels.h"
#include "libworker/graph/op.h"
#include "libworker/graph/op/attention.h"
#include "libworker/precision/half.h"
#include "tests/lib/check.h"

enum { SCENE_ALIGN = 64 };

struct scene {
    struct scene_shape shape;
    struct wk_graph *graph;
    struct op_call call; /* addresses are the host's */
};

static float next_number(unsigned *random)
{
    *random = *random * 1664525u + 1013904223u;
    return (float)(*random >> 8) / 0x1p23f - 1;
}

static float number_at(const struct op_tensor *x, int64_t i)
{
    if (x->type == WK_F32)
        return ((const float *)x->data)[i];
    uint16_t low = ((const uint16_t *)x->data)[i];
    return x->type == WK_BF16 ? f32_of_bf16(low) : f32_of_f16(low);
}

static void number_put(const struct op_tensor *x, int64_t i, float number)
{
    if (x->type == WK_F32)
        ((float *)x->data)[i] = number;
    else
        ((uint16_t *)x->data)[i] = x->type == WK_BF16 ? bf16_of_f32(number) : f16_of_f32(number);
}

static size_t bytes_of(const struct op_tensor *x)
{
    return (size_t)x->count * wk_dtype_bytes(x->type);
}

static struct op_tensor tensor_new(unsigned *random, enum wk_dtype type, int64_t rows,
                                   int64_t columns, int64_t last)
{
    struct op_tensor x = {.type = type, .dims = 3, .shape = {rows, columns, last}};
    x.count = rows * columns * last;
    x.data = malloc(bytes_of(&x) + 1);
    CHECK(x.data);
    for (int64_t i = 0; i < x.count; i++)
        number_put(&x, i, next_number(random));
    return x;
}

struct scene *scene_new(const struct scene_shape *shape, enum wk_dtype type)
{
    unsigned random = 1;
    struct scene *s = calloc(1, sizeof(*s));
    CHECK(s);
    s->shape = *shape;
    s->graph = wk_graph_new("scene");
    CHECK(s->graph);
    int64_t width = (shape->heads + 2 * shape->kv_heads) * shape->size;
    int64_t out = shape->heads * shape->size, samples = shape->samples, length = shape->length;
    struct wk_tensor *x =
        wk_graph_input(s->graph, "qkv", WK_F32, WK_SHAPE(WK_SAMPLES, WK_LENGTH, width));
    struct wk_attention_options options = {.heads = shape->heads,
                                           .kv_heads = shape->kv_heads,
                                           .full = shape->full,
                                           .window = shape->window,
                                           .scale = shape->scale};
    struct wk_tensor *y = wk_op_attention(x, &options);
    CHECK(y);
    s->call = (struct op_call){.node = y->node, .compute = type};
    s->call.in[ATTENTION_QKV] = tensor_new(&random, type, samples, length, width);
    s->call.out[0] = tensor_new(&random, type, samples, length, out);
    s->call.out[ATTENTION_LSE] = tensor_new(&random, WK_F32, samples, shape->heads, length);
    s->call.d_out = tensor_new(&random, WK_F32, samples, length, out);
    s->call.d_in[ATTENTION_QKV] = tensor_new(&random, WK_F32, samples, length, width);
    s->call.d_in[ATTENTION_QKV].add = shape->adds;
    return s;
}

static void tensors_of(struct op_call *call, struct op_tensor *ret[5])
{
    ret[0] = &call->in[ATTENTION_QKV];
    ret[1] = &call->d_out;
    ret[2] = &call->out[0];
    ret[3] = &call->out[ATTENTION_LSE];
    ret[4] = &call->d_in[ATTENTION_QKV];
}

void scene_free(struct scene *s)
{
    struct op_tensor *tensors[5];
    tensors_of(&s->call, tensors);
    for (int i = 0; i < 5; i++)
        free(tensors[i]->data);
    wk_graph_free(s->graph);
    free(s);
}

static void pass_run(struct op_args *args, struct queue *queue)
{
    struct device *device = queue_device(queue);
    const struct device_kernel *kernel = device_kernel_find(device, "attention");
    struct error err = {0};
    CHECK(kernel);
    size_t bytes = kernel->scratch_bytes(device, args);
    CHECK(!device_memory_new(device, bytes, &args->call.scratch, NULL));
    queue_fill(queue, args->call.scratch, 0xff, bytes);
    queue_launch(queue, &(struct device_launch){.name = "attention",
                                                .run = launch_op,
                                                .args = args,
                                                .args_bytes = sizeof(*args)});
    if (queue_finish(queue, &err))
        fprintf(stderr, "%s\n", err.text);
    CHECK(!device_failure(device, NULL));
    device_memory_free(device, args->call.scratch, bytes);
}

static struct op_args args_of(const struct scene *s, bool backward)
{
    struct op_args args = {.call = s->call, .backward = backward};
    struct op_tensor *tensors[5];
    args.pass = (struct op_pass){.device = "cuda", .trains = true, .samples = s->shape.samples};
    tensors_of(&args.call, tensors);
    for (int i = 0; i < 5; i++)
        tensors[i]->data = NULL;
    return args;
}

size_t scene_scratch(const struct scene *s, const struct device *device, bool backward)
{
    const struct op_args args = args_of(s, backward);
    return device_kernel_find(device, "attention")->scratch_bytes(device, &args);
}

void scene_chosen(const struct scene *s, const struct device *device, bool backward,
                  char ret[DEVICE_CHOSEN_BYTES])
{
    const struct op_args args = args_of(s, backward);
    device_kernel_find(device, "attention")->chosen(device, &args, ret);
}

void scene_run(struct scene *s, struct queue *queue, size_t shift)
{
    struct device *device = queue_device(queue);
    struct op_args args = {.call = s->call};
    struct op_tensor *here[5], *there[5];
    char *memory[5];
    args.pass = (struct op_pass){.device = "cuda", .trains = true, .samples = s->shape.samples};
    tensors_of(&s->call, here);
    tensors_of(&args.call, there);
    for (int i = 0; i < 5; i++) {
        void *all = NULL;
        size_t bytes = bytes_of(here[i]);
        CHECK(!device_memory_new(device, bytes + SCENE_ALIGN, &all, NULL));
        memory[i] = all;
        there[i]->data = memory[i] + shift;
        CHECK(!queue_write(queue, there[i]->data, here[i]->data, bytes, NULL));
    }
    pass_run(&args, queue);
    args.backward = true;
    pass_run(&args, queue);
    for (int i = 0; i < 5; i++) {
        CHECK(!queue_read(queue, here[i]->data, there[i]->data, bytes_of(here[i]), NULL));
        device_memory_free(device, memory[i], bytes_of(here[i]) + SCENE_ALIGN);
    }
}

void scene_run_host(struct scene *s)
{
    const struct op_row *row = s->call.node->row;
    struct op_pass pass = {.kernels = kernel_reference(), .device = "cpu", .trains = true};
    struct op_call call = s->call;
    call.pass = &pass;
    for (int backward = 0; backward < 2; backward++) {
        call.scratch = malloc(row->scratch_bytes(&call, backward) + 1);
        CHECK(call.scratch);
        if (backward)
            row->backward(&call);
        else
            row->forward(&call);
        free(call.scratch);
    }
}

static const struct op_tensor *result_of(const struct scene *s, enum scene_result result)
{
    const struct op_tensor *all[SCENE_RESULTS] = {&s->call.out[0], &s->call.out[ATTENTION_LSE],
                                                  &s->call.d_in[ATTENTION_QKV]};
    return all[result];
}

double scene_off(const struct scene *scene, const struct scene *other, enum scene_result result)
{
    const struct op_tensor *x = result_of(scene, result), *y = result_of(other, result);
    double most = 0, off = 0;
    for (int64_t i = 0; i < x->count; i++) {
        double a = (double)number_at(x, i), b = (double)number_at(y, i);
        most = fmax(most, fabs(b));
        off = isnan(a) || isnan(b) ? INFINITY : fmax(off, fabs(a - b));
    }
    return off / most;
}
