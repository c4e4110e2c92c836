#include <math.h>

#include "libworker/device/device.h"
#include "libworker/optim/clip.h"
#include "libworker/optim/launches.h"

double clip_sum_squares(const struct kernel_table *kernels, const float *grads, size_t count)
{
    return kernels->sum_squares(grads, count);
}

double clip_factor(double norm, double max_norm)
{
    if (!isfinite(norm))
        return NAN;
    double factor = max_norm / (norm + CLIP_EPSILON);
    return factor < 1 ? factor : 1;
}

void clip_clamp(float *grads, size_t count, float limit)
{
    for (size_t i = 0; i < count; i++) {
        float g = grads[i];
        g = g > limit ? limit : g;
        grads[i] = g < -limit ? -limit : g;
    }
}

static size_t piece_of(const struct clip_grads *g, size_t done)
{
    return g->count - done < CLIP_PIECE ? g->count - done : CLIP_PIECE;
}

static double low_squares(const struct clip_grads *g)
{
    double squares = 0;
    for (size_t done = 0, n; done < g->count; done += n) {
        n = piece_of(g, done);
        g->kernels->widen(g->scratch, g->type, g->low + done, n);
        squares += g->kernels->sum_squares(g->scratch, n);
    }
    return squares;
}

static void run_measure(struct queue *queue, const void *args)
{
    const struct clip_args *a = args;
    const struct clip_grads *g = &a->grads;
    (void)queue;
    *a->ret = g->low ? low_squares(g) : clip_sum_squares(g->kernels, g->grads, g->count);
}

static void run_limit(struct queue *queue, const void *args)
{
    const struct clip_args *a = args;
    const struct clip_grads *g = &a->grads;
    float limit = (float)(a->most / a->at->scale);
    (void)queue;
    if (!(a->at->finite > 0))
        return;
    if (!g->low)
        clip_clamp(g->grads, g->count, limit);
    for (size_t done = 0, n; g->low && done < g->count; done += n) {
        n = piece_of(g, done);
        g->kernels->widen(g->scratch, g->type, g->low + done, n);
        clip_clamp(g->scratch, n, limit);
        g->kernels->narrow(g->low + done, g->type, g->scratch, n);
    }
}

static void enqueue(struct queue *queue, const struct clip_args *args, enum device_use use,
                    struct device_launch launch)
{
    const struct clip_grads *g = &args->grads;
    const void *grads = g->low ? (const void *)g->low : g->grads;
    struct device_range ranges[] = {
        {grads, g->count * (g->low ? sizeof(*g->low) : sizeof(*g->grads)), use},
        {g->scratch, g->low ? CLIP_PIECE * sizeof(*g->scratch) : 0, DEVICE_SCRATCH},
        {args->ret, args->ret ? sizeof(*args->ret) : 0, DEVICE_WRITE},
        {args->at, args->at ? sizeof(*args->at) : 0, DEVICE_READ},
    };
    launch.args = args;
    launch.args_bytes = sizeof(*args);
    launch.ranges = ranges;
    launch.n_ranges = 4;
    queue_launch(queue, &launch);
}

void clip_measure(struct queue *queue, const struct clip_grads *grads, double *ret)
{
    enqueue(queue, &(struct clip_args){.grads = *grads, .ret = ret}, DEVICE_READ,
            (struct device_launch){.name = OPTIM_SQUARES, .run = run_measure});
}

void clip_limit(struct queue *queue, const struct clip_grads *grads,
                const struct verdict_values *at, double most)
{
    enqueue(queue, &(struct clip_args){.grads = *grads, .at = at, .most = most}, DEVICE_UPDATE,
            (struct device_launch){.name = OPTIM_LIMIT, .run = run_limit});
}
