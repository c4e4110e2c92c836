/* A language model with CUDA kernels of its own, made distributed: an embedding, a hidden layer with
 * tanh and logits learn which byte of a text follows which. Each is a block, so that under fsdp only
 * its parameters are in memory. The kernels are plain: a thread makes one number of a result.
 *
 *     cuda_own [TEXT]
 */
#include <cuda_runtime.h>
#include <stdio.h>
#include <worker/worker.h>

enum { BYTES = 256, WIDTH = 24, HIDDEN = 48, LENGTH = 8, BATCH = 20, STEPS = 40, THREADS = 128 };
enum { EMBEDDING, INNER, INNER_BIAS, OUTER, OUTER_BIAS, PARAMETERS };
enum { EMBEDS, HIDES, HEADS }; /* the blocks */

#ifndef LAUNCH /* tests run the kernels without a GPU */
#define LAUNCH(kernel, grid, block, stream, ...) kernel<<<grid, block, 0, stream>>>(__VA_ARGS__)
#endif
#define EACH(kernel, count, stream, ...)                                                           \
    LAUNCH(kernel, ((count) + THREADS - 1) / THREADS, THREADS, stream, __VA_ARGS__)
#define AT (int)(blockIdx.x * blockDim.x + threadIdx.x)

/* x[rows, WIDTH] of the tokens. */
__global__ void embed(float *x, const float *table, const int *tokens, int rows)
{
    if (AT < rows * WIDTH)
        x[AT] = table[tokens[AT / WIDTH] * WIDTH + AT % WIDTH];
}

/* dtable: each of its numbers is a sum over the rows with its token, in their order. */
__global__ void embed_backward(float *dtable, const float *dx, const int *tokens, int rows)
{
    if (AT >= BYTES * WIDTH)
        return;
    for (int r = 0; r < rows; r++)
        if (tokens[r] == AT / WIDTH)
            dtable[AT] += dx[r * WIDTH + AT % WIDTH];
}

/* y[rows, out] = x[rows, in] w[in, out] + b[out], and tanh of that. */
struct layer {
    int in, out, rows;
    bool bends;
};
__global__ void linear(float *y, const float *x, const float *w, const float *b, struct layer l)
{
    int row = AT / l.out, column = AT % l.out;
    if (row >= l.rows)
        return;
    float sum = b[column];
    for (int i = 0; i < l.in; i++)
        sum += x[row * l.in + i] * w[i * l.out + column];
    y[AT] = l.bends ? tanhf(sum) : sum;
}

__global__ void linear_dx(float *dx, const float *dy, const float *w, struct layer l)
{
    int row = AT / l.in, column = AT % l.in;
    if (row >= l.rows)
        return;
    float sum = 0;
    for (int j = 0; j < l.out; j++)
        sum += dy[row * l.out + j] * w[column * l.out + j];
    dx[AT] = sum;
}

/* dw += xᵀ dy; the row after the last is of ones, for db. */
__global__ void linear_dw(float *dw, float *db, const float *x, const float *dy, struct layer l)
{
    int row = AT / l.out, column = AT % l.out;
    if (row > l.in)
        return;
    float sum = 0;
    for (int r = 0; r < l.rows; r++)
        sum += (row < l.in ? x[r * l.in + row] : 1) * dy[r * l.out + column];
    if (row < l.in)
        dw[AT] += sum;
    else
        db[column] += sum;
}

__global__ void tanh_backward(float *dy, const float *y, int count)
{
    if (AT < count)
        dy[AT] *= 1 - y[AT] * y[AT];
}

/* The loss of each row, and the slopes of its logits in their place, times `share`. */
__global__ void cross_entropy(float *losses, float *logits, const int *targets, int rows,
                              float share)
{
    if (AT >= rows)
        return;
    float *row = logits + AT * BYTES, most = row[0], sum = 0;
    for (int i = 1; i < BYTES; i++)
        most = row[i] > most ? row[i] : most;
    for (int i = 0; i < BYTES; i++)
        sum += expf(row[i] - most);
    losses[AT] = logf(sum) + most - row[targets[AT]];
    for (int i = 0; i < BYTES; i++)
        row[i] = share * (expf(row[i] - most) / sum - (i == targets[AT]));
}

/* One thread: the sum has one order. */
__global__ void mean(double *loss, const float *losses, int rows, double divisor)
{
    double sum = 0;
    for (int i = 0; i < rows; i++)
        sum += losses[i];
    *loss = sum / divisor;
}

/* Activations of BATCH samples, and the gradients of the two that have one. */
struct activations {
    float *x, *hidden, *logits, *dx, *dhidden, *losses;
    double *loss;
};

static float *floats(int count)
{
    void *memory = NULL;
    if (cudaMalloc(&memory, (size_t)count * sizeof(float)) != cudaSuccess)
        fprintf(stderr, "cuda_own: no memory for %d floats on the GPU\n", count);
    return (float *)memory;
}

static bool activations_init(struct activations *a)
{
    const int rows = BATCH * LENGTH;
    *a = {floats(rows * WIDTH), floats(rows * HIDDEN), floats(rows * BYTES), floats(rows * WIDTH),
          floats(rows * HIDDEN), floats(rows), (double *)(void *)floats(2)};
    return a->x && a->hidden && a->logits && a->dx && a->dhidden && a->losses && a->loss;
}

static void activations_fini(struct activations *a)
{
    void *all[] = {a->x, a->hidden, a->logits, a->dx, a->dhidden, a->losses, a->loss};
    for (void *memory : all)
        (void)cudaFree(memory);
}

/* Forward to the loss, on the stream. */
static void forward(struct wk_model *model, const struct activations *a, const struct wk_batch *b,
                    cudaStream_t stream)
{
    int rows = (int)(b->samples * b->length);
    const layer inner = {WIDTH, HIDDEN, rows, true}, outer = {HIDDEN, BYTES, rows, false};
    float share = (float)(1 / b->denominator);
    wk_enter_block(model, WK_FORWARD, EMBEDS);
    EACH(embed, rows * WIDTH, stream, a->x, wk_parameter_data(model, EMBEDDING), b->tokens, rows);
    wk_enter_block(model, WK_FORWARD, HIDES);
    EACH(linear, rows * HIDDEN, stream, a->hidden, a->x, wk_parameter_data(model, INNER),
         wk_parameter_data(model, INNER_BIAS), inner);
    wk_enter_block(model, WK_FORWARD, HEADS);
    EACH(linear, rows * BYTES, stream, a->logits, a->hidden, wk_parameter_data(model, OUTER),
         wk_parameter_data(model, OUTER_BIAS), outer);
    EACH(cross_entropy, rows, stream, a->losses, a->logits, b->targets, rows, share);
    LAUNCH(mean, 1, 1, stream, a->loss, a->losses, rows, b->denominator);
    wk_set_loss_at(model, a->loss);
}

/* Leaving a block announces its gradients: their sum over the ranks runs beside what follows. */
static void backward(struct wk_model *model, const struct activations *a, const struct wk_batch *b,
                     cudaStream_t stream)
{
    int rows = (int)(b->samples * b->length);
    const layer inner = {WIDTH, HIDDEN, rows, true}, outer = {HIDDEN, BYTES, rows, false};
    wk_enter_block(model, WK_BACKWARD, HEADS);
    EACH(linear_dw, (HIDDEN + 1) * BYTES, stream, wk_parameter_grad(model, OUTER),
         wk_parameter_grad(model, OUTER_BIAS), a->hidden, a->logits, outer);
    EACH(linear_dx, rows * HIDDEN, stream, a->dhidden, a->logits, wk_parameter_data(model, OUTER),
         outer);
    wk_enter_block(model, WK_BACKWARD, HIDES);
    EACH(tanh_backward, rows * HIDDEN, stream, a->dhidden, a->hidden, rows * HIDDEN);
    EACH(linear_dw, (WIDTH + 1) * HIDDEN, stream, wk_parameter_grad(model, INNER),
         wk_parameter_grad(model, INNER_BIAS), a->x, a->dhidden, inner);
    EACH(linear_dx, rows * WIDTH, stream, a->dx, a->dhidden, wk_parameter_data(model, INNER),
         inner);
    wk_enter_block(model, WK_BACKWARD, EMBEDS);
    EACH(embed_backward, BYTES * WIDTH, stream, wk_parameter_grad(model, EMBEDDING), a->dx,
         b->tokens, rows);
}

/* Small numbers that look random, the same in every run. */
static void fill(float *values, int count, unsigned seed)
{
    for (int i = 0; i < count; i++) {
        seed = seed * 1664525 + 1013904223;
        values[i] = ((float)(seed >> 8) / (1 << 24) - 0.5f) * 0.4f;
    }
}

int main(int argc, char **argv)
{
    static float embedding[BYTES * WIDTH], inner[WIDTH * HIDDEN], outer[HIDDEN * BYTES];
    fill(embedding, BYTES * WIDTH, 17);
    fill(inner, WIDTH * HIDDEN, 18);
    fill(outer, HIDDEN * BYTES, 19);
    const struct wk_buffer buffers[PARAMETERS] = {
        {"embedding", 2, {BYTES, WIDTH}, embedding, false, 0, false, EMBEDS},
        {"inner.weight", 2, {WIDTH, HIDDEN}, inner, false, 0, false, HIDES},
        {"inner.bias", 1, {HIDDEN}, NULL, false, 0, false, HIDES},
        {"outer.weight", 2, {HIDDEN, BYTES}, outer, false, 0, false, HEADS},
        {"outer.bias", 1, {BYTES}, NULL, false, 0, false, HEADS},
    };
    struct wk_loader_options deal = {};
    deal.length = LENGTH;
    deal.batch = BATCH;
    deal.sequential = true;
    deal.batches = STEPS;
    struct wk_custom_options own = {};
    own.count = PARAMETERS;
    own.buffers = buffers;
    struct wk_adamw_options adamw = {1e-2, 0.9, 0.95, 1e-8, 0.1};
    struct wk_context *ctx = wk_begin(NULL);
    struct wk_loader *loader = wk_loader_in(ctx, argc > 1 ? argv[1] : "LICENSE", &deal);
    struct wk_model *model = wk_custom_in(ctx, &own);
    struct wk_optimizer *optimizer = wk_adamw_in(ctx, &adamw);
    struct activations a = {};
    bool ready = false;
    wk_passes_on(model, "cuda");

    for (struct wk_batch batch, there; wk_next(loader, &batch);) {
        cudaStream_t stream = (cudaStream_t)wk_model_place(model).stream; /* its GPU is current */
        ready = ready || activations_init(&a);
        if (!ready || wk_send_batch(model, &batch, &there))
            break;
        if (there.samples) {
            forward(model, &a, &there, stream);
            backward(model, &a, &there, stream);
        }
        wk_backward(model);
        wk_step(optimizer);
        wk_print(ctx, stdout, "after step %d: loss %.6f\n", (int)wk_steps(ctx), wk_loss(ctx));
    }
    activations_fini(&a);
    int code = wk_finish(ctx);
    return code || ready ? code : 1;
}
