#include "libworker/parallel/sharded_params.h"

#include "libworker/parallel/sharded_low.h"
#include "libworker/parallel/sharded_stage.h"
#include "libworker/parallel/sharded_unit.h"
#include "libworker/tensor/mapped.h"

static int gather_floats(struct sharded *s, int unit, struct wk_work **ret_work)
{
    const struct shard_unit *place = &s->plan.units[unit];
    float *own = sharded_row(s, s->params, unit), *master = s->own_params + place->shard;
    if (sharded_staged(s))
        return sharded_stage_gather(s, unit, master, WK_F32, ret_work);
    queue_copy(s->model->queue, own, master, place->row * sizeof(float));
    return wk_all_gather(s->comm, own, s->params + place->place, place->row, WK_F32, ret_work);
}

void sharded_start_gather(struct sharded *s, int unit)
{
    struct sharded_unit *u = &s->units[unit];
    if (u->gathered || s->failure)
        return;
    u->gathered = true;
    int rc = s->low.params ? sharded_low_gather(s, unit, &u->gather)
                           : gather_floats(s, unit, &u->gather);
    if (s->options.offload_params)
        mapped_give_back(s->own_params, s->plan.units[unit].shard, s->plan.units[unit].row);
    if (rc)
        sharded_note(s, rc);
}

int sharded_await_gather(struct sharded *s, int unit)
{
    struct sharded_unit *u = &s->units[unit];
    size_t place = s->plan.units[unit].place;
    int rc = wk_wait(u->gather);
    u->gather = NULL;
    if (rc)
        sharded_note(s, rc);
    if (s->low.params)
        sharded_stage_gathered(s, unit, s->low.params + place, s->options.narrowing.type);
    else
        sharded_stage_gathered(s, unit, s->params + place, WK_F32);
    return s->failure;
}

void sharded_release(struct sharded *s, int unit)
{
    struct sharded_unit *u = &s->units[unit];
    if (!u->gathered)
        return;
    (void)sharded_await_gather(s, unit);
    u->gathered = false;
    if (s->low.params)
        sharded_low_drop(s, unit);
    else
        sharded_drop(s, &s->param_pages, unit);
    u->released = event_record(s->model->queue);
}

static int gather_every_unit(struct sharded *s)
{
    for (int i = 0; i < s->plan.n_units; i++) {
        sharded_start_gather(s, i);
        if (sharded_staged(s) && i > 0) /* so that copies of two are enough */
            (void)sharded_await_gather(s, i - 1);
    }
    for (int i = 0; i < s->plan.n_units; i++)
        (void)sharded_await_gather(s, i);
    return s->failure;
}

void sharded_use(void *self, struct wk_comm *comm)
{
    struct sharded *s = self;
    s->whole = comm;
    s->comm = s->groups.row ? s->groups.row : comm;
    s->depth = 0; /* a pass that failed did not leave its blocks */
    sharded_low_hide(s);
}

int sharded_gather(void *self, struct wk_comm *comm)
{
    struct sharded *s = self;
    sharded_use(s, comm);
    if (s->low.params)
        return sharded_low_show(s);
    return sharded_frees_params(s) ? gather_every_unit(s) : 0;
}

int sharded_gather_own(void *self, struct wk_comm *comm)
{
    struct sharded *s = self;
    if (!sharded_frees_params(s) || s->hooked)
        return 0;
    sharded_use(s, comm);
    return gather_every_unit(s);
}

void sharded_release_all(struct sharded *s)
{
    for (int i = 0; i < s->plan.n_units && sharded_frees_params(s); i++)
        sharded_release(s, i);
}

/* The first `units` units have changed. */
static int renew(struct sharded *s, struct wk_comm *comm, int units)
{
    s->failure = 0;
    s->why = (struct error){0};
    s->updated = event_record(s->model->queue);
    for (int i = 0; i < s->plan.n_units; i++)
        s->units[i].released = s->updated;
    sharded_use(s, comm);
    int rc = s->low.params ? sharded_low_vectors(s) : 0;
    if (rc)
        sharded_note(s, rc);
    if (sharded_frees_params(s)) {
        sharded_release_all(s);
        return s->failure;
    }
    for (int i = 0; i < units; i++)
        s->units[i].gathered = false;
    return gather_every_unit(s);
}

int sharded_refresh(void *self, struct wk_comm *comm)
{
    struct sharded *s = self;
    return renew(s, comm, s->plan.n_units);
}

int sharded_spread(void *self, struct wk_comm *comm)
{
    struct sharded *s = self;
    return renew(s, comm, s->trained.n_units);
}
