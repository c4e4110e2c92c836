#include "libworker/parallel/sharded_host.h"

#include "libworker/device/reach.h"
#include "libworker/parallel/sharded_unit.h"

int sharded_host_init(struct sharded *s, struct error *err)
{
    void *floats = NULL;
    int rc = masters_init(&s->masters, s->model->queue, s->plan.shard, err);
    if (rc)
        return rc;
    s->floats_count = sharded_most(s, s->plan.n_units);
    if (device_zeros_new(s->model->queue, s->floats_count * sizeof(*s->floats), &floats, NULL))
        return error_set(err, WK_ENOMEM, "no device memory for a unit of %zu parameters in float",
                         s->floats_count);
    s->floats = floats;
    if (pages_init(&s->param_pages, s->plan.padded, false))
        return error_set(err, WK_ENOMEM, "no addresses for %zu parameters", s->plan.padded);
    return 0;
}

void sharded_host_fini(struct sharded *s)
{
    device_memory_free(queue_device(s->model->queue), s->floats,
                       s->floats_count * sizeof(*s->floats));
    masters_fini(&s->masters);
}

/* Pieces of vectors among elements of the shard. */
static void copy_vectors(const struct sharded *s, const float *there, size_t first, size_t count)
{
    for (int i = 0; i < s->model->n_params; i++) {
        const struct param *param = &s->model->params[i];
        if (model_reads_low(param))
            continue;
        struct shard_piece own =
            shard_piece(&s->plan, s->unit_of[i], s->options.part, param->offset, param->count);
        struct masters_overlap both = masters_overlap(first, count, own.at, own.count);
        size_t place = (size_t)(param->data - s->low.vectors) + own.first + (both.from - own.at);
        if (both.count)
            queue_copy(s->model->queue, s->low.own_vectors + place, there + (both.from - first),
                       both.count * sizeof(*there));
    }
}

static void passed(void *arg, const float *there, size_t first, size_t count)
{
    const struct sharded *s = arg;
    for (int i = 0; i < s->plan.n_units; i++) {
        const struct shard_unit *u = &s->plan.units[i];
        struct masters_overlap both = masters_overlap(first, count, u->shard, u->row);
        if (!both.count)
            continue;
        size_t within = both.from - u->shard;
        narrow_write(&s->options.narrowing, s->model->queue, sharded_low_row(s, i) + within,
                     (struct narrow_source){there + (both.from - first), both.count,
                                            sharded_row_first(s, i) + within});
    }
    copy_vectors(s, there, first, count);
}

struct optimizer_masters sharded_host_masters(struct sharded *s)
{
    return (struct optimizer_masters){true, s->options.narrowing.stochastic, passed, s};
}

void sharded_host_keep(struct sharded *s, int unit)
{
    const struct shard_unit *u = &s->plan.units[unit];
    (void)reach_read(s->model->queue, s->own_params + u->shard,
                     s->floats + u->row * (size_t)s->options.part, u->row * sizeof(float), NULL);
}

int sharded_host_renew(struct sharded *s)
{
    return masters_renew(&s->masters, passed, s);
}

int sharded_host_show(struct sharded *s, int unit)
{
    const struct shard_unit *u = &s->plan.units[unit];
    struct queue *queue = s->model->queue;
    float *own = s->floats + u->row * (size_t)s->options.part;
    queue_send(queue, own, s->own_params + u->shard, u->row * sizeof(*own));
    struct event before = event_record(queue);
    const struct wire_call call = {.op = WIRE_GATHER,
                                   .in = own,
                                   .out = s->floats,
                                   .count = u->row,
                                   .ready = before,
                                   .unused = before};
    int rc = wire_run(&s->gathers, s->comm, &call, &s->why);
    if (!rc)
        rc = reach_read(queue, s->params + u->place, s->floats,
                        sharded_elements(s, unit) * sizeof(float), &s->why);
    if (rc)
        sharded_note(s, rc);
    return rc;
}
