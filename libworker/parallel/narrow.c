#include "libworker/parallel/narrow.h"

#include <worker/precision.h>

#include "libworker/device/device.h"
#include "libworker/precision/noise.h"

struct narrow_args {
    const struct kernel_table *kernels;
    struct narrow_source from;
    uint16_t *out;
    uint64_t noise;
    enum wk_dtype type;
    size_t by_chance; /* the first ones */
};

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
    queue_launch(queue, &(struct device_launch){.name = "narrow parameters",
                                                .run = run_narrow,
                                                .args = &args,
                                                .args_bytes = sizeof(args),
                                                .ranges = ranges,
                                                .n_ranges = 2});
}
