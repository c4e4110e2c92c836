#include "libworker/parallel/sharded_params.h"

#include "libworker/parallel/sharded_host.h"
#include "libworker/parallel/sharded_low.h"
#include "libworker/parallel/sharded_slots.h"
#include "libworker/parallel/sharded_unit.h"
#include "libworker/tensor/mapped.h"

static int gather_floats(struct sharded *s, int unit)
{
    const struct shard_unit *place = &s->plan.units[unit];
    struct sharded_unit *u = &s->units[unit];
    const struct wire_call call = {.op = WIRE_GATHER,
                                   .in = s->own_params + place->shard,
                                   .out = s->params + place->place,
                                   .count = place->row,
                                   .ready = s->updated,
                                   .unused = u->released};
    return wire_start(&s->gathers, s->comm, &call, &u->gather);
}

void sharded_start_gather(struct sharded *s, int unit)
{
    struct sharded_unit *u = &s->units[unit];
    if (u->gathered || s->failure)
        return;
    int other = sharded_to_release(s, unit);
    if (other >= 0)
        sharded_release(s, other);
    u->gathered = true;
    int rc = sharded_take_gathered(s, unit);
    if (rc)
        (void)error_set(&s->why, rc, "no device memory for all of block %d", unit);
    if (!rc)
        rc = s->low.params ? sharded_low_gather(s, unit) : gather_floats(s, unit);
    if (!rc)
        rc = wire_begin(&u->gather);
    if (s->options.offload_params)
        mapped_give_back(s->own_params, s->plan.units[unit].shard, s->plan.units[unit].row);
    if (rc)
        sharded_note(s, rc);
}

int sharded_await_gather(struct sharded *s, int unit)
{
    int rc = wire_finish(&s->units[unit].gather);
    if (rc)
        sharded_note(s, rc);
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
    sharded_note_released(s, unit);
}

static int gather_every_unit(struct sharded *s)
{
    for (int i = 0; i < s->plan.n_units; i++) {
        sharded_start_gather(s, i);
        if (sharded_is(s, WIRE_STAGED) && i > 0) /* so that copies of two are enough */
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
    sharded_reenter(s);
    sharded_low_hide(s);
    if (!s->all)
        return;
    s->all = false;
    if (!sharded_params_turn(s))
        return; /* they stay readable */
    sharded_release_all(s);
    int rc = sharded_rest_gathered(s);
    if (rc)
        sharded_note(s, rc);
}

int sharded_gather(void *self, struct wk_comm *comm)
{
    struct sharded *s = self;
    sharded_use(s, comm);
    if (s->low.params)
        return sharded_low_show(s);
    s->all = sharded_frees_params(s);
    return s->all ? gather_every_unit(s) : 0;
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
    s->why = s->gathers.why = s->sums.why = (struct error){0};
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
    int rc = s->masters.queue ? sharded_host_renew(s) : 0;
    if (rc)
        return rc;
    return renew(s, comm, s->plan.n_units);
}

int sharded_spread(void *self, struct wk_comm *comm)
{
    struct sharded *s = self;
    return renew(s, comm, s->trained.n_units);
}
