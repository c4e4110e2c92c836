#include "libworker/parallel/narrow.h"

#include <worker/precision.h>

#include "libworker/device/device.h"
#include "libworker/parallel/launches.h"
#include "libworker/precision/noise.h"

static void run_narrow(struct queue *queue, const void *args)
{
    const struct narrow_args *a = args;
    const struct narrow_source *from = &a->from;
    size_t chance = a->by_chance;
    (void)queue;
    if (chance)
        wk_narrow_stochastic(a->out, from->x, chance, a->noise, from->first);
    if (chance < from->count)
        a->kernels->narrow(a->out + chance, a->type, from->x + chance, from->count - chance);
}

static size_t by_chance(const struct narrowing *n, const struct narrow_source *source)
{
    if (!n->stochastic || source->first >= n->trained)
        return 0;
    size_t trained = n->trained - source->first;
    return source->count < trained ? source->count : trained;
}

void narrow_write(const struct narrowing *n, struct queue *queue, uint16_t *out,
                  struct narrow_source source)
{
    struct narrow_args args = {n->kernels, source,
                               out,        noise_of_step(n->seed, n->steps ? *n->steps : 0),
                               n->type,    by_chance(n, &source)};
    struct device_range ranges[] = {
        {source.x, source.count * sizeof(*source.x), DEVICE_READ},
        {out, source.count * sizeof(*out), DEVICE_WRITE},
    };
    queue_launch(queue, &(struct device_launch){.name = PARALLEL_NARROW_MODEL,
                                                .run = run_narrow,
                                                .args = &args,
                                                .args_bytes = sizeof(args),
                                                .ranges = ranges,
                                                .n_ranges = 2});
}
