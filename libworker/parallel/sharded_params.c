/* Parameters of a sharded model: from the shards to where the model reads them. */
#include <string.h>

#include "libworker/parallel/sharded_low.h"
#include "libworker/parallel/sharded_unit.h"
#include "libworker/tensor/mapped.h"

static int gather_floats(struct sharded *s, int unit, struct wk_work **ret_work)
{
    const struct shard_unit *place = &s->plan.units[unit];
    float *own = sharded_row(s, s->params, unit);
    memcpy(own, s->own_params + place->shard, place->row * sizeof(float));
    return wk_all_gather(s->comm, own, s->params + place->place, place->row, WK_F32, ret_work);
}

static void start_gather(struct sharded *s, int unit)
{
    struct sharded_unit *u = &s->units[unit];
    if (u->gathered || s->failure)
        return;
    u->gathered = true;
    int rc = s->low.params ? sharded_low_gather(s, unit, &u->gather)
                           : gather_floats(s, unit, &u->gather);
    if (s->options.offload)
        mapped_give_back(s->own_params, s->plan.units[unit].shard, s->plan.units[unit].row);
    if (rc)
        sharded_note(s, rc);
}

static int await_gather(struct sharded *s, int unit)
{
    struct sharded_unit *u = &s->units[unit];
    int rc = wk_wait(u->gather);
    u->gather = NULL;
    if (rc)
        sharded_note(s, rc);
    return s->failure;
}

static void release(struct sharded *s, int unit)
{
    struct sharded_unit *u = &s->units[unit];
    if (!u->gathered)
        return;
    (void)await_gather(s, unit);
    u->gathered = false;
    if (s->low.params)
        sharded_low_drop(s, unit);
    else
        sharded_drop(s, &s->param_pages, unit);
}

static int gather_every_unit(struct sharded *s)
{
    for (int i = 0; i < s->plan.n_units; i++)
        start_gather(s, i);
    for (int i = 0; i < s->plan.n_units; i++)
        (void)await_gather(s, i);
    return s->failure;
}

void sharded_use(struct sharded *s, struct wk_comm *comm)
{
    s->whole = comm;
    s->comm = s->groups.row ? s->groups.row : comm;
    s->depth = 0; /* a pass that failed did not leave its blocks */
    sharded_low_hide(s);
}

int sharded_gather_all(struct sharded *s, struct wk_comm *comm)
{
    sharded_use(s, comm);
    if (s->low.params)
        return sharded_low_show(s);
    return s->options.sharding == SHARDING_FSDP ? gather_every_unit(s) : 0;
}

int sharded_gather_own(struct sharded *s, struct wk_comm *comm)
{
    if (s->options.sharding != SHARDING_FSDP)
        return 0;
    sharded_use(s, comm);
    return gather_every_unit(s);
}

void sharded_release_all(struct sharded *s)
{
    for (int i = 0; i < s->plan.n_units && s->options.sharding == SHARDING_FSDP; i++)
        release(s, i);
}

int sharded_refresh(struct sharded *s, struct wk_comm *comm)
{
    s->failure = 0;
    sharded_use(s, comm);
    int rc = s->low.params ? sharded_low_vectors(s) : 0;
    if (rc)
        sharded_note(s, rc);
    if (s->options.sharding == SHARDING_FSDP) {
        sharded_release_all(s);
        return s->failure;
    }
    for (int i = 0; i < s->plan.n_units; i++)
        s->units[i].gathered = false;
    return gather_every_unit(s);
}

int sharded_updated(struct sharded *s, struct wk_comm *comm)
{
    return sharded_refresh(s, comm);
}

/* Block 0 may serve a tied head inside the last block's brackets, so it stays for the whole step;
 * the last block is needed again at once. */
static bool stays_after_forward(const struct sharded *s, int unit)
{
    return s->options.keep_gathered || unit == 0 || unit == s->plan.n_units - 1;
}

static int before_block(void *arg, int block, enum model_pass pass, struct error *err)
{
    struct sharded *s = arg;
    int step = pass == MODEL_FORWARD ? 1 : -1;
    int ahead = s->depth++ ? 0 : s->options.prefetch; /* a tied head's block 0 is no road sign */
    start_gather(s, block);
    for (int next = block + step; ahead-- > 0 && next >= 0 && next < s->plan.n_units; next += step)
        start_gather(s, next);
    int rc = await_gather(s, block);
    return rc ? error_set(err, rc, "gathering block %d: %s", block, sharded_error(s)) : 0;
}

static int after_block(void *arg, int block, enum model_pass pass, struct error *err)
{
    struct sharded *s = arg;
    (void)err;
    s->depth--;
    if (pass == MODEL_FORWARD) {
        if (!stays_after_forward(s, block))
            release(s, block);
        return 0;
    }
    if (block == 0)
        return 0; /* sharded_flush: its gradient may still grow */
    if (s->following && s->next == block)
        sharded_unit_done(s, s->next--);
    release(s, block);
    return 0;
}

int sharded_empty_pass(struct sharded *s, enum model_pass pass, struct error *err)
{
    int n = s->plan.n_units, rc = 0;
    s->depth = 0;
    for (int i = 0; i < n && !rc && s->hooked; i++) {
        int block = pass == MODEL_FORWARD ? i : n - 1 - i;
        rc = before_block(s, block, pass, err);
        rc = rc ? rc : after_block(s, block, pass, err);
    }
    return rc;
}

struct model_hooks sharded_hooks(struct sharded *s)
{
    return s->hooked ? (struct model_hooks){before_block, after_block, s} : (struct model_hooks){0};
}
