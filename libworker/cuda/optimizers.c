/* Updates of optimizers on a GPU (optim/launches.h). An element-wise one updates up to TOGETHER_MAX
 * segments in one launch. */
#include "libworker/cuda/optimizers.h"

#include <string.h>

#include "libworker/cuda/kernels/factored.h"
#include "libworker/cuda/launch.h"
#include "libworker/cuda/update_traffic.h"

enum { ROW, COL, VECTOR }; /* Adafactor's states */

_Static_assert((int)GPU_PARTS_MAX == (int)TOGETHER_MAX, "all segments of a launch");
_Static_assert(sizeof(union element_numbers) == sizeof(((struct gpu_part *)0)->rule),
               "the same unions");
_Static_assert(FACTORED_ROOM * sizeof(double) <= CUDA_SCRATCH_BYTES, "sums fit a queue's scratch");

static struct gpu_copy copy_of(const struct copy_args *copy, const struct noted_numbers *noted)
{
    return (struct gpu_copy){.low = copy->low,
                             .type = copy->type,
                             .by_chance = copy->stochastic,
                             .noise = copy->noise,
                             .first = copy->first,
                             .noise_at = noted ? &noted->noise : NULL};
}

static struct gpu_factor factor_of(const struct update_args *a)
{
    const struct verdict_values *v = a->verdict;
    return (struct gpu_factor){
        .scale = v ? &v->scale : NULL, .applies = v ? &v->applies : NULL, .value = a->scale};
}

static struct gpu_value grads_of(const struct update_args *a)
{
    if (a->whole.grads)
        return (struct gpu_value){(void *)(uintptr_t)a->whole.grads, WK_F32};
    return (struct gpu_value){(void *)(uintptr_t)a->low_grads, a->low_type};
}

struct gpu_update update_of(const struct update_args *a)
{
    return (struct gpu_update){.count = (int64_t)a->whole.count,
                               .params = a->whole.params,
                               .grads = grads_of(a),
                               .state = {a->whole.state[0], a->whole.state[1]},
                               .factor = factor_of(a),
                               .copy = copy_of(&a->copy, a->noted)};
}

/* Enqueues an update of several parts. */
typedef void update_fn(const struct gpu_update *update, const struct gpu_part *parts, int n,
                       cudaStream_t stream);

static void run_segment(const struct update_args *a, update_fn *enqueue, cudaStream_t stream)
{
    struct gpu_update update = update_of(a);
    struct gpu_part part = {.count = update.count, .moves = a->moves};
    memcpy(&part.rule, &a->numbers.adamw, sizeof(part.rule)); /* the union's, whichever it is */
    enqueue(&update, &part, 1, stream);
}

static void run_segments(const struct together_args *a, update_fn *enqueue, cudaStream_t stream)
{
    struct gpu_update update = update_of(&a->range);
    struct gpu_part parts[TOGETHER_MAX];
    for (int i = 0; i < a->n; i++) {
        const struct together_part *from = &a->parts[i];
        parts[i] = (struct gpu_part){
            .first = (int64_t)from->first, .count = (int64_t)from->count, .moves = from->moves};
        memcpy(&parts[i].rule, &from->numbers, sizeof(parts[i].rule));
    }
    enqueue(&update, parts, a->n, stream);
}

static void run_adamw(const void *args, struct cuda_queue *queue)
{
    run_segment(args, gpu_adamw, queue->stream);
}

static void run_sgd(const void *args, struct cuda_queue *queue)
{
    run_segment(args, gpu_sgd, queue->stream);
}

static void run_lion(const void *args, struct cuda_queue *queue)
{
    run_segment(args, gpu_lion, queue->stream);
}

static void run_adamw_segments(const void *args, struct cuda_queue *queue)
{
    run_segments(args, gpu_adamw, queue->stream);
}

static void run_sgd_segments(const void *args, struct cuda_queue *queue)
{
    run_segments(args, gpu_sgd, queue->stream);
}

static void run_lion_segments(const void *args, struct cuda_queue *queue)
{
    run_segments(args, gpu_lion, queue->stream);
}

static void run_adafactor(const void *args, struct cuda_queue *queue)
{
    const struct update_args *a = args;
    const struct adafactor_numbers *n = &a->numbers.adafactor;
    struct gpu_update update = update_of(a);
    struct gpu_factored f = {.rows = n->rows,
                             .cols = n->cols,
                             .params = a->whole.params,
                             .grads = a->whole.grads,
                             .row = n->is_matrix ? a->numbers.own[ROW] : NULL,
                             .col = a->numbers.own[n->is_matrix ? COL : VECTOR],
                             .scratch = a->numbers.scratch,
                             .room = queue->scratch,
                             .decay = n->decay,
                             .epsilon1 = n->epsilon1,
                             .rate = n->rate,
                             .weight_decay = n->weight_decay,
                             .clip = n->clip,
                             .epsilon2 = n->epsilon2,
                             .decay_at = a->noted ? &a->noted->adafactor.decay : NULL,
                             .rate_at = a->noted ? &a->noted->adafactor.rate : NULL,
                             .relative = n->relative,
                             .factor = update.factor};
    if (a->moves)
        gpu_adafactor(&f, queue->stream);
    gpu_copy_params(&update, queue->stream);
}

static void run_copy(const void *args, struct cuda_queue *queue)
{
    const struct rewrite_args *a = args;
    struct gpu_update update = {.count = (int64_t)a->count,
                                .params = (float *)(uintptr_t)a->params,
                                .copy = copy_of(&a->copy, NULL)};
    gpu_copy_params(&update, queue->stream);
}

const struct cuda_launch cuda_launch_adam = {
    .name = "adam", .run = run_adamw, .traffic = traffic_segment};
const struct cuda_launch cuda_launch_adamw = {
    .name = "adamw", .run = run_adamw, .traffic = traffic_segment};
const struct cuda_launch cuda_launch_sgd = {
    .name = "sgd", .run = run_sgd, .traffic = traffic_segment};
const struct cuda_launch cuda_launch_lion = {
    .name = "lion", .run = run_lion, .traffic = traffic_segment};
const struct cuda_launch cuda_launch_adam_segments = {
    .name = "adam of segments", .run = run_adamw_segments, .traffic = traffic_segments};
const struct cuda_launch cuda_launch_adamw_segments = {
    .name = "adamw of segments", .run = run_adamw_segments, .traffic = traffic_segments};
const struct cuda_launch cuda_launch_sgd_segments = {
    .name = "sgd of segments", .run = run_sgd_segments, .traffic = traffic_segments};
const struct cuda_launch cuda_launch_lion_segments = {
    .name = "lion of segments", .run = run_lion_segments, .traffic = traffic_segments};
const struct cuda_launch cuda_launch_adafactor = {
    .name = "adafactor", .run = run_adafactor, .traffic = traffic_adafactor};
const struct cuda_launch cuda_launch_optim_copy = {.name = OPTIM_COPY, .run = run_copy};
