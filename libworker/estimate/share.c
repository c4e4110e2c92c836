#include "libworker/estimate/share.h"

#include <stdlib.h>

#include <worker/error.h>

#include "libworker/nn/model.h"
#include "libworker/optim/host_state.h"
#include "libworker/parallel/masters.h"
#include "libworker/parallel/sharded.h"
#include "libworker/parallel/unit_slots.h"

enum {
    FLOAT_BYTES = sizeof(float),
    LOW_BYTES = sizeof(uint16_t),
    BUFFER_BYTES = 4 * sizeof(float) + sizeof(double), /* nn/buffers.h */
};

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t state_elements(const struct optimizer_shape *shape)
{
    int64_t count = shape->dims ? 1 : 0;
    for (int i = 0; i < shape->dims; i++)
        count *= shape->shape[i];
    return count;
}

/* State with shapes of its own, and the largest scratch. */
static int64_t whole_state(const struct wk_model *model, const struct optimizer_ops *ops)
{
    int64_t count = 0, scratch = 0;
    for (int i = 0; i < model_trained(model); i++) {
        struct optimizer_segment segment = {.param = &model->params[i],
                                            .count = model->params[i].count};
        for (int s = 0; s < ops->n_states; s++) {
            struct optimizer_shape shape = ops->state_shape(&segment, s);
            count += state_elements(&shape);
        }
        scratch = larger(scratch, (int64_t)ops->scratch(&segment));
    }
    return (count + scratch) * FLOAT_BYTES;
}

/* Elements of units: blocks under fsdp, else buckets. Gathered for a pass; gradients in float until
 * they are final; gradients until their sum is in the rank's part, which are narrow with
 * low_gradients. `row` is the largest unit. */
struct in_use {
    int64_t gathered, grads, summed, row;
};

static struct unit_walk walk_of(const struct wk_model *model, int prefetch, size_t *sizes)
{
    struct unit_walk walk = {
        .sizes = sizes, .order = model->order, .n_units = model->n_blocks, .prefetch = prefetch};
    for (int i = 0; i < model->n_blocks; i++) {
        struct model_block block = model_block(model, i);
        sizes[i] = block.count;
        if (block.first < model_trained(model))
            walk.n_trained++;
    }
    return walk;
}

static int total_of(int rc, struct unit_slots *slots, int64_t *ret)
{
    *ret = rc ? 0 : (int64_t)unit_slots_total(slots);
    if (!rc)
        unit_slots_fini(slots);
    return rc;
}

/* As parallel/sharded_slots.c places them. */
static int blocks_in_use(const struct wk_model *model, const struct estimate_options *o,
                         struct in_use *ret)
{
    size_t *sizes = calloc((size_t)model->n_blocks, sizeof(*sizes));
    struct unit_slots slots;
    if (!sizes)
        return WK_ENOMEM;
    struct unit_walk walk = walk_of(model, o->prefetch, sizes);
    int ahead = o->low_gradients ? 0 : SHARDED_REDUCES_MAX;
    int rc = total_of(unit_slots_params(&walk, &slots), &slots, &ret->gathered);
    if (!rc)
        rc = total_of(unit_slots_grads(&walk, ahead, true, &slots), &slots, &ret->grads);
    if (!rc)
        rc = total_of(unit_slots_grads(&walk, SHARDED_REDUCES_MAX, false, &slots), &slots,
                      &ret->summed);
    for (int i = 0; i < walk.n_trained; i++)
        ret->row = larger(ret->row, (int64_t)sizes[i]);
    free(sizes);
    return rc;
}

/* A bucket is closed by the tensor that fills it. */
static int64_t bucket_elements(const struct wk_model *model, size_t bucket_bytes)
{
    int64_t tensor = 0;
    for (int i = 0; i < model_trained(model); i++)
        tensor = larger(tensor, (int64_t)model->params[i].count);
    return (int64_t)bucket_bytes / FLOAT_BYTES + tensor;
}

static struct in_use buckets_in_use(const struct wk_model *model, const struct estimate_options *o)
{
    int64_t unit = bucket_elements(model, o->bucket_bytes);
    int64_t trained = (int64_t)model_trained_count(model);
    int64_t summed = smaller((1 + SHARDED_REDUCES_MAX) * unit, trained);
    return (struct in_use){.gathered = (int64_t)model->count,
                           .grads = o->low_gradients ? smaller(unit, trained) : summed,
                           .summed = summed};
}

static int64_t part_of(int64_t count, int world)
{
    return (count + world - 1) / world;
}

/* A strategy that cuts the state. */
static int share_of_cut(const struct wk_model *model, const struct estimate_options *o,
                        struct estimate *e)
{
    int64_t all = (int64_t)model->count, trained = (int64_t)model_trained_count(model);
    int64_t own = part_of(all, o->world), own_grads = part_of(trained, o->world);
    struct in_use in_use = {0};
    int rc = 0;
    if (o->strategy == STRATEGY_FSDP)
        rc = blocks_in_use(model, o, &in_use);
    else
        in_use = buckets_in_use(model, o);
    bool narrow = o->compute != WK_F32;
    e->parameters = (own + (narrow ? 0 : in_use.gathered)) * FLOAT_BYTES;
    e->low = narrow ? in_use.gathered * LOW_BYTES : 0;
    if (o->strategy == STRATEGY_ZERO1) { /* the rank's part is within the whole */
        own_grads = 0;
        in_use.summed = trained;
    }
    e->gradients = (own_grads + in_use.summed) * FLOAT_BYTES;
    if (o->strategy == STRATEGY_FSDP) /* those of block 0 from the beginning on */
        e->gradients = (own_grads + in_use.grads) * FLOAT_BYTES;
    if (o->low_gradients) /* a unit is in float until it is final */
        e->gradients =
            (own_grads + in_use.summed) * LOW_BYTES +
            (in_use.grads + SHARDED_REDUCES_MAX * part_of(in_use.row, o->world)) * FLOAT_BYTES;
    return rc;
}

/* Collectives in rows: each rank sends (N - 1) / N of the bytes once (docs/collectives.md). */
static double sent_in_step(const struct wk_model *model, const struct estimate_options *o)
{
    double all = (double)model->count, trained = (double)model_trained_count(model);
    double part = (double)(o->world - 1) / o->world;
    double grads = trained * (o->low_gradients ? LOW_BYTES : FLOAT_BYTES);
    double each = o->compute == WK_F32 ? FLOAT_BYTES : LOW_BYTES;
    switch (o->strategy) {
    case STRATEGY_DDP:
        return 2 * grads * part;
    case STRATEGY_ZERO1:
    case STRATEGY_ZERO2:
        return (grads + trained * each) * part;
    case STRATEGY_FSDP:
        return (grads + 2 * all * each) * part;
    case STRATEGY_KINDS:
        break;
    }
    return 0;
}

/* What offloading leaves on the device instead of the masters: vectors, under a strategy that cuts
 * also this rank's of them and a unit in float, and what renewing needs. */
static int64_t without_masters(const struct wk_model *model, const struct estimate_options *o,
                               int64_t own)
{
    int64_t vectors = 0, unit = 0;
    for (int i = 0; i < model->n_params; i++)
        vectors += model_reads_low(&model->params[i]) ? 0 : (int64_t)model->params[i].count;
    if (o->strategy == STRATEGY_FSDP)
        for (int i = 0; i < model->n_blocks; i++)
            unit = larger(unit, (int64_t)model_block(model, i).count);
    else if (o->strategy != STRATEGY_DDP)
        unit = smaller(bucket_elements(model, o->bucket_bytes), (int64_t)model->count);
    int64_t copies = o->strategy == STRATEGY_DDP ? 1 : 2;
    return (copies * vectors + unit + (int64_t)masters_piece((size_t)own)) * FLOAT_BYTES;
}

/* `held`, `own`: parameters of this rank, and those that its optimizer updates. */
static void move_to_host(const struct wk_model *model, const struct estimate_options *o,
                         int64_t held, int64_t own, struct estimate *e)
{
    const struct optimizer_ops *ops = o->optimizer->ops;
    const struct host_state_parts parts = {o->masters_on_host,
                                           o->state_on_host ? ops->n_states : 0};
    if (ops->whole_tensors || (!parts.master && !parts.n_states))
        return;
    if (parts.master) {
        e->low += o->strategy == STRATEGY_FSDP ? held * LOW_BYTES : 0; /* its rows stay */
        e->parameters = without_masters(model, o, held);
        e->on_host += held * FLOAT_BYTES;
    }
    if (parts.n_states) {
        e->on_host += e->optimizer;
        e->optimizer = 0;
    }
    e->optimizer += (int64_t)host_state_slots((size_t)own, parts);
    e->over_bus = 2 * (parts.master + parts.n_states) * own * FLOAT_BYTES;
}

int share_of_state(const struct wk_model *model, const struct estimate_options *o,
                   struct estimate *e)
{
    const struct optimizer_ops *ops = o->optimizer->ops;
    int rc = 0;
    int64_t all = (int64_t)model->count, trained = (int64_t)model_trained_count(model);
    bool cuts = o->strategy != STRATEGY_DDP;
    int64_t own = cuts ? part_of(trained, o->world) : trained;
    if (cuts) {
        rc = share_of_cut(model, o, e);
    } else {
        e->parameters = all * FLOAT_BYTES;
        e->gradients = trained * FLOAT_BYTES;
        e->low = o->compute == WK_F32 ? 0 : all * LOW_BYTES;
    }
    e->optimizer = ops->whole_tensors ? whole_state(model, ops) : ops->n_states * own * FLOAT_BYTES;
    move_to_host(model, o, cuts ? part_of(all, o->world) : all, own, e);
    e->parameters += (int64_t)model->buffers.count * BUFFER_BYTES;
    e->sent = sent_in_step(model, o);
    return rc;
}
