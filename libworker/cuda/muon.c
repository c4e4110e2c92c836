/* Muon on a GPU (optim/muon.c). A matrix is updated by two kernels around products of f32 by
 * cuBLASLt; each iteration is three of them, and their addends take the place of blends:
 *
 *     s = x x^T       p = b s + c s s       y = a x + p x       (or x^T x and x p)
 *
 * Parameters that are no matrix are AdamW's. */
#include "libworker/optim/muon.h"

#include "libworker/cuda/kernels/muon.h"
#include "libworker/cuda/launch.h"
#include "libworker/cuda/lt.h"
#include "libworker/cuda/optimizers.h"
#include "libworker/cuda/update_traffic.h"

_Static_assert(MUON_ROOM * sizeof(double) <= CUDA_SCRATCH_BYTES, "sums fit a queue's scratch");

/* A matrix of f32 without padding. */
static struct lt_matrix matrix(const float *at, int64_t cols, bool turned)
{
    return (struct lt_matrix){.at = at, .stride = cols, .turned = turned};
}

/* The sums in the queue's scratch memory are used up by then. */
static void multiply(struct cuda_queue *queue, struct lt_product p)
{
    size_t workspace = lt_workspace_bytes(p.m, p.n, 1);
    p.batch = 1;
    p.type = p.result = WK_F32;
    p.d_stride = p.n;
    lt_product(queue, &p, queue->scratch,
               workspace < CUDA_SCRATCH_BYTES ? workspace : CUDA_SCRATCH_BYTES);
}

/* x[rows, cols] becomes nearly orthogonal, in its place or in the last of the room. Returns its
 * place. */
static float *newton_schulz(struct cuda_queue *queue, const int64_t size[2], float *x,
                            float *const room[3])
{
    int64_t rows = size[0], cols = size[1];
    bool wide = rows <= cols;
    int64_t side = wide ? rows : cols;
    float *s = room[0], *p = room[1], *y = room[2];
    for (int i = 0; i < MUON_ITERATIONS; i++) {
        multiply(queue, (struct lt_product){.m = side,
                                            .n = side,
                                            .k = wide ? cols : rows,
                                            .a = matrix(x, cols, !wide),
                                            .b = matrix(x, cols, wide),
                                            .d = s,
                                            .alpha = 1});
        multiply(queue, (struct lt_product){.m = side,
                                            .n = side,
                                            .k = side,
                                            .a = matrix(s, side, false),
                                            .b = matrix(s, side, false),
                                            .c = matrix(s, side, false),
                                            .d = p,
                                            .alpha = MUON_C,
                                            .beta = MUON_B});
        multiply(queue,
                 (struct lt_product){.m = rows,
                                     .n = cols,
                                     .k = side,
                                     .a = wide ? matrix(p, side, false) : matrix(x, cols, false),
                                     .b = wide ? matrix(x, cols, false) : matrix(p, side, false),
                                     .c = matrix(x, cols, false),
                                     .d = y,
                                     .alpha = 1,
                                     .beta = MUON_A});
        float *old = x;
        x = y;
        y = old;
    }
    return x;
}

static void update_matrix(const struct update_args *a, const struct gpu_update *update,
                          struct cuda_queue *queue)
{
    const struct muon_numbers *m = &a->numbers.muon;
    size_t count = a->whole.count, square = m->square * m->square;
    float *scratch = a->numbers.scratch;
    float *const room[3] = {scratch + 2 * count, scratch + 2 * count + square, scratch + count};
    struct gpu_muon muon = {.count = update->count,
                            .params = update->params,
                            .momentum = a->numbers.own[MUON_MOMENTUM],
                            .update = scratch,
                            .grads = a->whole.grads,
                            .room = queue->scratch,
                            .decay = m->momentum,
                            .nesterov = m->nesterov,
                            .epsilon = MUON_EPSILON,
                            .step = muon_step(m, a->whole.count),
                            .step_at = a->noted ? &a->noted->muon : NULL,
                            .factor = update->factor};
    gpu_muon_begin(&muon, queue->stream);
    muon.update = newton_schulz(queue, m->size, scratch, room);
    gpu_muon_end(&muon, queue->stream);
    gpu_copy_params(update, queue->stream);
}

static void run_muon(const void *args, struct cuda_queue *queue)
{
    const struct update_args *a = args;
    struct gpu_update update = update_of(a);
    if (a->moves && a->numbers.muon.is_matrix) {
        update_matrix(a, &update, queue);
        return;
    }
    struct gpu_part part = {.count = update.count, .moves = a->moves};
    part.rule.adamw = a->numbers.muon.others;
    part.adamw_at = a->noted ? &a->noted->adamw : NULL;
    update.state[0] = a->numbers.own[MUON_AVG];
    update.state[1] = a->numbers.own[MUON_AVG_SQ];
    gpu_adamw(&update, &part, 1, queue->stream);
}

const struct cuda_launch cuda_launch_muon = {
    .name = "muon", .run = run_muon, .traffic = traffic_muon};
