/* What becomes of a window's sums, on a GPU (optim/launches.h, graph/launches.h): squares, limits,
 * the verdict and the losses. Nothing waits for the host.
 */
#include <string.h>

#include "libworker/cuda/kernels/elements.h"
#include "libworker/cuda/kernels/numbers.h"
#include "libworker/cuda/launch.h"
#include "libworker/cuda/update_traffic.h"
#include "libworker/graph/launches.h"
#include "libworker/optim/launches.h"

_Static_assert((int)NUMBERS_TOTAL_MAX == (int)GRAPH_NAMED_MAX, "all losses of a graph");
_Static_assert(NUMBERS_PARTIALS * sizeof(double) <= CUDA_SCRATCH_BYTES,
               "sums fit a queue's scratch");

static struct gpu_value grads_of(const struct clip_grads *g)
{
    if (g->low)
        return (struct gpu_value){g->low, g->type};
    return (struct gpu_value){g->grads, WK_F32};
}

static void run_squares(const void *args, struct cuda_queue *queue)
{
    const struct clip_args *a = args;
    struct gpu_sum sum = {.x = grads_of(&a->grads),
                          .count = (int64_t)a->grads.count,
                          .squares = true,
                          .ret = a->ret,
                          .partials = queue->scratch};
    gpu_sum_up(&sum, queue->stream);
}

static void run_limit(const void *args, struct cuda_queue *queue)
{
    const struct clip_args *a = args;
    struct gpu_limit limit = {.x = grads_of(&a->grads),
                              .count = (int64_t)a->grads.count,
                              .most = a->most,
                              .scale = &a->at->scale,
                              .finite = &a->at->finite};
    gpu_limit_values(&limit, queue->stream);
}

static void run_step(const void *args, enum gpu_verdict what, struct cuda_queue *queue)
{
    const struct verdict_args *a = args;
    struct gpu_verdict_step step = {.what = what,
                                    .at = a->at,
                                    .number = a->number,
                                    .flag = what == GPU_OPEN ? a->sums == VERDICT_FINITE : a->first,
                                    .epsilon = CLIP_EPSILON};
    gpu_verdict_run(&step, queue->stream);
}

static void run_add_loss(const void *args, struct cuda_queue *queue)
{
    run_step(args, GPU_ADD_LOSS, queue);
}

static void run_open(const void *args, struct cuda_queue *queue)
{
    run_step(args, GPU_OPEN, queue);
}

static void run_measure(const void *args, struct cuda_queue *queue)
{
    run_step(args, GPU_MEASURE, queue);
}

static void run_clip(const void *args, struct cuda_queue *queue)
{
    run_step(args, GPU_CLIP, queue);
}

static void run_judge(const void *args, struct cuda_queue *queue)
{
    run_step(args, GPU_JUDGE, queue);
}

static void run_sum_loss(const void *args, struct cuda_queue *queue)
{
    const struct row_args *row = args;
    struct gpu_sum sum = {.x = {(void *)(uintptr_t)row->from, WK_F32},
                          .count = row->count,
                          .add = true,
                          .ret = row->sum,
                          .partials = queue->scratch};
    gpu_sum_up(&sum, queue->stream);
}

static void run_total(const void *args, struct cuda_queue *queue)
{
    const struct total_args *a = args;
    struct gpu_total total = {.n = a->n, .sums = a->sums, .to = a->to};
    memcpy(total.weights, a->weights, sizeof(total.weights));
    memcpy(total.divisors, a->divisors, sizeof(total.divisors));
    gpu_total_up(&total, queue->stream);
}

const struct cuda_launch cuda_launch_optim_squares = {
    .name = OPTIM_SQUARES, .run = run_squares, .traffic = traffic_squares};
const struct cuda_launch cuda_launch_optim_limit = {.name = OPTIM_LIMIT, .run = run_limit};
const struct cuda_launch cuda_launch_optim_add_loss = {.name = OPTIM_ADD_LOSS, .run = run_add_loss};
const struct cuda_launch cuda_launch_optim_open = {.name = OPTIM_OPEN, .run = run_open};
const struct cuda_launch cuda_launch_optim_measure = {.name = OPTIM_MEASURE, .run = run_measure};
const struct cuda_launch cuda_launch_optim_clip = {.name = OPTIM_CLIP, .run = run_clip};
const struct cuda_launch cuda_launch_optim_judge = {.name = OPTIM_JUDGE, .run = run_judge};
const struct cuda_launch cuda_launch_graph_sum_loss = {
    .name = GRAPH_SUM_LOSS, .run = run_sum_loss, .kernels = 2};
const struct cuda_launch cuda_launch_graph_total = {.name = GRAPH_TOTAL, .run = run_total};
