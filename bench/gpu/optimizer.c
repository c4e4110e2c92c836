#include <stdio.h>

#include "bench/gpu/pieces.h"
#include "libworker/nn/model.h"
#include "libworker/optim/clip.h"
#include "libworker/optim/optimizer.h"
#include "libworker/optim/verdict.h"

enum { WIDTH = 1024 };

/* Bytes of an element: the gradient for its square; then gradient, parameter and two moments, the
 * last three also written, and the copy. */
static const double BYTES = 4 + 4 + 8 + 16 + 2;

struct update {
    struct wk_optimizer *optimizer;
    struct verdict verdict;
    struct clip_grads grads;
    float *values;
};

static void enqueue(struct piece *piece, void *arg)
{
    struct update *u = arg;
    struct optimizer_gradients g = {.grads = u->grads.grads, .scale = 1, .verdict = u->verdict.at};
    verdict_open(&u->verdict, 1, VERDICT_UNKNOWN);
    clip_measure(piece->queue, &u->grads, &u->verdict.at->squares);
    verdict_measure(&u->verdict, true);
    verdict_clip(&u->verdict, 1);
    verdict_judge(&u->verdict, 0);
    (void)optimizer_enqueue(u->optimizer, u->values, &g, NULL);
}

static int bind(struct piece *piece, struct update *u, struct param *param, uint16_t *low)
{
    const struct wk_adamw_options options = {3e-4, 0.9, 0.95, 1e-8, 0.1};
    const struct optimizer_copy copy = {low, WK_BF16, false, 0};
    struct error err = {0};
    if (wk_adamw_new(&options, &u->optimizer))
        return 1;
    optimizer_move(u->optimizer, piece->queue);
    if (optimizer_bind(u->optimizer, param, 1, 0, param->count, &err) ||
        optimizer_set_copy(u->optimizer, &copy, &err) ||
        verdict_init(&u->verdict, piece->queue, &err)) {
        fprintf(stderr, "bench_gpu_pieces: %s\n", err.text);
        return 1;
    }
    return 0;
}

static int report(struct piece *piece, struct update *u, int64_t count)
{
    double ms = piece_ms(piece, enqueue, u), bytes = BYTES * (double)count;
    if (ms < 0)
        return 1;
    printf("{\"piece\": \"adamw and clip\", \"parameters\": %lld, \"bytes\": %.0f, \"ms\": %.4f, "
           "\"gb_per_s\": %.5g}\n",
           (long long)count, bytes, ms, bytes / ms * 1e-6);
    return 0;
}

int piece_adamw(struct piece *piece, int64_t count)
{
    struct update u = {0};
    count = (count + WIDTH - 1) / WIDTH * WIDTH;
    struct param param = {.name = "w",
                          .dims = 2,
                          .shape = {count / WIDTH, WIDTH},
                          .count = (size_t)count,
                          .decay = true};
    size_t floats = param.count * sizeof(float);
    float *grads = piece_memory(piece, floats, 0x3c);
    uint16_t *low = piece_memory(piece, floats / 2, 0);
    u.values = piece_memory(piece, floats, 0x3c);
    u.grads = (struct clip_grads){.grads = grads, .type = WK_F32, .count = param.count};
    int rc = !grads || !low || !u.values || bind(piece, &u, &param, low);
    if (!rc)
        rc = report(piece, &u, count);
    verdict_fini(&u.verdict);
    wk_optimizer_free(u.optimizer);
    device_memory_free(piece->device, grads, floats);
    device_memory_free(piece->device, low, floats / 2);
    device_memory_free(piece->device, u.values, floats);
    return rc;
}
