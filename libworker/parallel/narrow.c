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
    bool stochastic;
};

static void run_narrow(struct queue *queue, const void *args)
{
    const struct narrow_args *a = args;
    const struct narrow_source *from = &a->from;
    (void)queue;
    if (a->stochastic)
        wk_narrow_stochastic(a->out, from->x, from->count, a->noise, from->first);
    else
        a->kernels->narrow(a->out, a->type, from->x, from->count);
}

void narrow_write(const struct narrowing *n, struct queue *queue, uint16_t *out,
                  struct narrow_source source)
{
    struct narrow_args args = {n->kernels, source,
                               out,        noise_of_step(n->seed, n->steps ? *n->steps : 0),
                               n->type,    n->stochastic};
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
