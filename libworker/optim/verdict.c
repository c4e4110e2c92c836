#include "libworker/optim/verdict.h"

#include <math.h>

#include "libworker/device/numbers.h"
#include "libworker/device/kernels.h"
#include "libworker/optim/launches.h"

enum { VALUES = sizeof(struct verdict_values) / sizeof(double) };
_Static_assert(sizeof(struct verdict_values) == VALUES * sizeof(double), "each is a double");

int verdict_init(struct verdict *verdict, struct queue *queue, struct error *err)
{
    static const char *const launches[] = OPTIM_LAUNCHES;
    *verdict = (struct verdict){.queue = queue};
    int rc = 0;
    for (size_t i = 0; i < sizeof(launches) / sizeof(*launches) && !rc; i++)
        rc = device_kernel_need(queue_device(queue), "launch", launches[i], err);
    if (!rc)
        rc = numbers_new(queue_device(queue), VALUES, &verdict->numbers, err);
    if (rc)
        return rc;
    verdict->at = (struct verdict_values *)(void *)numbers_at(verdict->numbers);
    verdict_clear(verdict);
    return 0;
}

void verdict_fini(struct verdict *verdict)
{
    if (verdict->queue)
        (void)queue_finish(verdict->queue, NULL);
    numbers_free(verdict->numbers);
    *verdict = (struct verdict){0};
}

void verdict_clear(struct verdict *verdict)
{
    if (verdict->numbers)
        numbers_clear(verdict->numbers, verdict->queue);
}

int verdict_fetch(struct verdict *verdict, const struct verdict_values **ret_values,
                  struct error *err)
{
    const double *values;
    numbers_fetch(verdict->numbers, verdict->queue);
    int rc = numbers_wait(verdict->numbers, &values, err);
    if (!rc)
        *ret_values = (const struct verdict_values *)(const void *)values;
    return rc;
}

static void enqueue(const struct verdict *verdict, const char *name,
                    void (*run)(struct queue *, const void *), struct verdict_args args)
{
    struct device_range range = {verdict->at, sizeof(*verdict->at), DEVICE_UPDATE};
    args.at = verdict->at;
    queue_launch(verdict->queue, &(struct device_launch){.name = name,
                                                         .run = run,
                                                         .args = &args,
                                                         .args_bytes = sizeof(args),
                                                         .ranges = &range,
                                                         .n_ranges = 1});
}

static void run_add_loss(struct queue *queue, const void *args)
{
    const struct verdict_args *a = args;
    struct verdict_values *v = a->at;
    (void)queue;
    v->loss = (double)((float)v->loss + (float)(v->pass * a->number));
}

void verdict_add_loss(struct verdict *verdict, double share)
{
    enqueue(verdict, OPTIM_ADD_LOSS, run_add_loss, (struct verdict_args){.number = share});
}

int verdict_take_loss(struct verdict *verdict, double *ret_loss, struct error *err)
{
    const struct verdict_values *values;
    int rc = verdict_fetch(verdict, &values, err);
    if (rc)
        return rc;
    *ret_loss = values->loss;
    queue_fill(verdict->queue, &verdict->at->loss, 0, sizeof(verdict->at->loss));
    return 0;
}

static void run_open(struct queue *queue, const void *args)
{
    const struct verdict_args *a = args;
    (void)queue;
    a->at->scale = a->number;
    a->at->norm = 0;
    a->at->finite = a->sums == VERDICT_FINITE ? 1 : 0;
}

void verdict_open(struct verdict *verdict, double scale, enum verdict_sums sums)
{
    enqueue(verdict, OPTIM_OPEN, run_open, (struct verdict_args){.number = scale, .sums = sums});
}

static void run_measure(struct queue *queue, const void *args)
{
    const struct verdict_args *a = args;
    (void)queue;
    a->at->norm = sqrt(a->at->squares) * a->at->scale;
    if (a->first)
        a->at->finite = isfinite(a->at->squares) ? 1 : 0;
}

void verdict_measure(struct verdict *verdict, bool first)
{
    enqueue(verdict, OPTIM_MEASURE, run_measure, (struct verdict_args){.first = first});
}

static void run_clip(struct queue *queue, const void *args)
{
    const struct verdict_args *a = args;
    (void)queue;
    a->at->scale *= clip_factor(a->at->norm, a->number);
}

void verdict_clip(struct verdict *verdict, double max_norm)
{
    enqueue(verdict, OPTIM_CLIP, run_clip, (struct verdict_args){.number = max_norm});
}

static void run_judge(struct queue *queue, const void *args)
{
    const struct verdict_args *a = args;
    struct verdict_values *v = a->at;
    (void)queue;
    bool finite = v->finite > 0 && isfinite(v->scale) && isfinite(a->number + v->loss);
    v->applies = finite ? 1 : 0;
}

void verdict_judge(struct verdict *verdict, double loss)
{
    enqueue(verdict, OPTIM_JUDGE, run_judge, (struct verdict_args){.number = loss});
}
