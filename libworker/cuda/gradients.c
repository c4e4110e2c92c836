/* Elements of gradients and parameters on a GPU (graph/launches.h, parallel/launches.h). */
#include "libworker/cuda/kernels/elements.h"
#include "libworker/cuda/launch.h"
#include "libworker/graph/launches.h"
#include "libworker/parallel/launches.h"

static struct gpu_value floats_of(const float *at)
{
    return (struct gpu_value){(void *)(uintptr_t)at, WK_F32};
}

static void run_fill(const struct row_args *row, bool add, cudaStream_t stream)
{
    struct gpu_gradient to = {row->to, add};
    if (row->seed_at)
        gpu_fill_from(to, row->seed_at, row->count, stream);
    else
        gpu_fill(to, (float)row->seed, row->count, stream);
}

static void run_seed(const void *args, struct cuda_queue *queue)
{
    run_fill(args, false, queue->stream);
}

static void run_add_seed(const void *args, struct cuda_queue *queue)
{
    run_fill(args, true, queue->stream);
}

/* Two floats for each word, whatever their bits are. */
static void run_note(const void *args, struct cuda_queue *queue)
{
    const struct note_args *a = args;
    gpu_numbers_put(a->to, (const float *)(const void *)a->words, 2 * (int64_t)a->n, queue->stream);
}

static void run_add_row(const void *args, struct cuda_queue *queue)
{
    const struct row_args *row = args;
    gpu_add(floats_of(row->to), floats_of(row->from), row->count, queue->stream);
}

static struct gpu_value narrow_of(const struct type_args *a)
{
    return (struct gpu_value){a->low, a->type};
}

static void run_widen_values(const void *args, struct cuda_queue *queue)
{
    const struct type_args *a = args;
    gpu_convert(floats_of(a->wide), narrow_of(a), a->count, queue->stream);
}

static void run_narrow_values(const void *args, struct cuda_queue *queue)
{
    const struct type_args *a = args;
    gpu_convert(narrow_of(a), floats_of(a->wide), a->count, queue->stream);
}

static void run_scale(const void *args, struct cuda_queue *queue)
{
    const struct elements_args *a = args;
    gpu_scale(a->to, a->factor, (int64_t)a->count, queue->stream);
}

static void run_add(const void *args, struct cuda_queue *queue)
{
    const struct elements_args *a = args;
    gpu_add(floats_of(a->to), floats_of(a->from), (int64_t)a->count, queue->stream);
}

static struct gpu_value low_of(const struct elements_args *a)
{
    return (struct gpu_value){a->low, a->how.type};
}

static void run_narrow(const void *args, struct cuda_queue *queue)
{
    const struct elements_args *a = args;
    gpu_convert(low_of(a), floats_of(a->from), (int64_t)a->count, queue->stream);
}

static void run_widen(const void *args, struct cuda_queue *queue)
{
    const struct elements_args *a = args;
    gpu_convert(floats_of(a->to), low_of(a), (int64_t)a->count, queue->stream);
}

static void run_add_narrow(const void *args, struct cuda_queue *queue)
{
    const struct elements_args *a = args;
    gpu_add(low_of(a), floats_of(a->from), (int64_t)a->count, queue->stream);
}

static void run_add_widened(const void *args, struct cuda_queue *queue)
{
    const struct elements_args *a = args;
    gpu_add(floats_of(a->to), low_of(a), (int64_t)a->count, queue->stream);
}

static void run_narrow_model(const void *args, struct cuda_queue *queue)
{
    const struct narrow_args *a = args;
    const struct narrow_source *from = &a->from;
    struct gpu_chances chances = {.from = from->x,
                                  .to = a->out,
                                  .count = (int64_t)a->by_chance,
                                  .noise = a->noise,
                                  .first = from->first};
    struct gpu_value rest = {a->out + a->by_chance, a->type};
    gpu_narrow_by_chance(&chances, queue->stream);
    gpu_convert(rest, floats_of(from->x + a->by_chance), (int64_t)(from->count - a->by_chance),
                queue->stream);
}

static void run_compact(const void *args, struct cuda_queue *queue)
{
    const struct compact_args *a = args;
    for (int i = 0; i < a->plan->n_units; i++) {
        const struct shard_unit *u = &a->plan->units[i];
        const char *from = a->arena + (u->place + u->row * a->part) * a->element;
        gpu_move_back(a->arena + u->shard * a->element, from, u->row * a->element, a->element,
                      queue->stream);
    }
}

const struct cuda_launch cuda_launch_graph_add = {.name = GRAPH_ADD, .run = run_add_row};
const struct cuda_launch cuda_launch_graph_add_seed = {.name = GRAPH_ADD_SEED, .run = run_add_seed};
const struct cuda_launch cuda_launch_graph_narrow = {.name = GRAPH_NARROW,
                                                     .run = run_narrow_values};
const struct cuda_launch cuda_launch_graph_note = {.name = GRAPH_NOTE, .run = run_note};
const struct cuda_launch cuda_launch_graph_seed = {.name = GRAPH_SEED, .run = run_seed};
const struct cuda_launch cuda_launch_graph_widen = {.name = GRAPH_WIDEN, .run = run_widen_values};
const struct cuda_launch cuda_launch_parallel_add = {.name = PARALLEL_ADD, .run = run_add};
const struct cuda_launch cuda_launch_parallel_add_narrow = {.name = PARALLEL_ADD_NARROW,
                                                            .run = run_add_narrow};
const struct cuda_launch cuda_launch_parallel_add_widened = {.name = PARALLEL_ADD_WIDENED,
                                                             .run = run_add_widened};
const struct cuda_launch cuda_launch_parallel_compact = {.name = PARALLEL_COMPACT,
                                                         .run = run_compact};
const struct cuda_launch cuda_launch_parallel_narrow = {.name = PARALLEL_NARROW, .run = run_narrow};
const struct cuda_launch cuda_launch_parallel_narrow_model = {.name = PARALLEL_NARROW_MODEL,
                                                              .run = run_narrow_model};
const struct cuda_launch cuda_launch_parallel_scale = {.name = PARALLEL_SCALE, .run = run_scale};
const struct cuda_launch cuda_launch_parallel_widen = {.name = PARALLEL_WIDEN, .run = run_widen};
