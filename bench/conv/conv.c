/* One convolution of a graph forward and backward, in float on one thread.
 *
 * Usage: bench_conv SAMPLES CHANNELS SIDE OUT KERNEL STRIDE. For every line on standard input it
 * takes both passes and prints their milliseconds of the thread's processor, and of out, dx and
 * dweight one element and the sum of squares. run.py compares them with a peer's.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <worker/graph.h>

#include "bench/alone.h"
#include "libworker/graph/op.h"
#include "libworker/nn/random.h"

enum { ARGUMENTS = 6, ARGUMENT_MAX = 4096, ELEMENT = 5 };
enum { X, WEIGHT };

struct bench {
    struct wk_graph *graph;
    struct op_pass pass;
    struct op_call call;
    void *scratch[2];
};

/* A tensor with numbers of `stream`, from -0.5 to 0.5. */
static struct op_tensor tensor_new(const struct wk_tensor *like, int64_t samples, uint64_t stream)
{
    struct op_tensor tensor = {.type = WK_F32, .dims = like->dims, .count = 1};
    struct sizes sizes = {samples, 1};
    for (int i = 0; i < like->dims; i++) {
        tensor.shape[i] = dim_size(like->shape[i], &sizes);
        tensor.count *= tensor.shape[i];
    }
    float *data = malloc((size_t)tensor.count * sizeof(*data));
    for (int64_t i = 0; data && i < tensor.count; i++)
        data[i] = (float)random_uniform(stream, (uint64_t)i) - 0.5F;
    tensor.data = data;
    return tensor;
}

/* -1: no memory, or no such convolution, which is said. */
static int bench_init(struct bench *b, const int64_t size[ARGUMENTS])
{
    int64_t samples = size[0], channels = size[1], side = size[2], out = size[3], kernel = size[4];
    struct wk_conv_options options = {.stride = (int)size[5], .padding = (int)kernel / 2};
    b->graph = wk_graph_new("conv");
    struct wk_tensor *x =
        wk_graph_input(b->graph, "x", WK_F32, WK_SHAPE(WK_SAMPLES, channels, side, side));
    struct wk_tensor *weight =
        wk_graph_param(b->graph, "weight", WK_SHAPE(out, channels, kernel, kernel), NULL);
    struct wk_tensor *y = wk_op_conv2d(x, weight, NULL, &options);
    if (!y) {
        fprintf(stderr, "bench_conv: %s\n", wk_graph_error(b->graph));
        return -1;
    }
    b->pass = (struct op_pass){.kernels = kernel_cpu(), .trains = true, .samples = samples};
    b->call = (struct op_call){.node = y->node, .pass = &b->pass, .compute = WK_F32};
    b->call.in[X] = tensor_new(x, samples, 1);
    b->call.in[WEIGHT] = tensor_new(weight, samples, 2);
    b->call.d_out = tensor_new(y, samples, 3);
    b->call.out[0] = tensor_new(y, samples, 4);
    b->call.d_in[X] = tensor_new(x, samples, 4);
    b->call.d_in[WEIGHT] = tensor_new(weight, samples, 4);
    for (int i = 0; i < 2; i++)
        b->scratch[i] =
            aligned_alloc(64, (y->node->row->scratch_bytes(&b->call, i > 0) + 63) / 64 * 64 + 64);
    return b->call.in[X].data && b->call.in[WEIGHT].data && b->call.d_out.data &&
                   b->call.out[0].data && b->call.d_in[X].data && b->call.d_in[WEIGHT].data &&
                   b->scratch[0] && b->scratch[1]
               ? 0
               : -1;
}

static void bench_fini(struct bench *b)
{
    for (int i = X; i <= WEIGHT; i++) {
        free(b->call.in[i].data);
        free(b->call.d_in[i].data);
        free(b->scratch[i]);
    }
    free(b->call.d_out.data);
    free(b->call.out[0].data);
    wk_graph_free(b->graph);
}

static void show(const struct bench *b, const struct op_tensor *x)
{
    const float *data = x->data;
    printf(" %.9g %.9g", (double)data[ELEMENT],
           b->pass.kernels->sum_squares(data, (size_t)x->count));
}

static void round_once(struct bench *b)
{
    const struct op_row *row = b->call.node->row;
    double start_s = alone_s();
    b->call.scratch = b->scratch[0];
    row->forward(&b->call);
    b->call.scratch = b->scratch[1];
    row->backward(&b->call);
    printf("%.6f", (alone_s() - start_s) * 1e3);
    show(b, &b->call.out[0]);
    show(b, &b->call.d_in[X]);
    show(b, &b->call.d_in[WEIGHT]);
    printf("\n");
    (void)fflush(stdout);
}

int main(int argc, char **argv)
{
    int64_t size[ARGUMENTS] = {0};
    bool good = argc == ARGUMENTS + 1;
    for (int i = 0; i < ARGUMENTS && good; i++) {
        size[i] = strtol(argv[i + 1], NULL, 10);
        good = size[i] >= 1 && size[i] <= ARGUMENT_MAX;
    }
    if (!good) {
        fprintf(stderr, "usage: bench_conv SAMPLES CHANNELS SIDE OUT KERNEL STRIDE\n");
        return 2;
    }
    struct bench b = {0};
    char line[16];
    int rc = bench_init(&b, size);
    while (!rc && fgets(line, sizeof(line), stdin))
        round_once(&b);
    bench_fini(&b);
    return rc ? 1 : 0;
}
