#include "libworker/parallel/sharded_blocks.h"

#include "libworker/parallel/sharded_grads.h"
#include "libworker/parallel/sharded_params.h"
#include "libworker/parallel/sharded_slots.h"
#include "libworker/parallel/sharded_unit.h"

/* The first place that a pass may enter: backward, nothing trained is before unit 0. */
static int first_place(const struct unit_walk *walk, enum model_pass pass)
{
    return pass == MODEL_FORWARD ? 0 : unit_place(walk, 0);
}

/* A tied head adds to unit 0's from the last block on. */
static int take_grads(struct sharded *s, int block, struct error *err)
{
    int rc = sharded_take_grads(s, 0);
    if (!rc && block < s->trained.n_units)
        rc = sharded_take_grads(s, block);
    if (rc)
        (void)error_set(err, rc, "no device memory for the gradients of block %d", block);
    return rc;
}

static int before_block(void *arg, int block, enum model_pass pass, struct error *err)
{
    struct sharded *s = arg;
    int step = pass == MODEL_FORWARD ? 1 : -1;
    int ahead = s->depth++ ? 0 : s->options.prefetch; /* a tied head's block 0 is no road sign */
    const struct unit_walk walk = sharded_walk(s);
    s->units[block].entered++;
    sharded_start_gather(s, block);
    int next = ahead > 0 ? unit_place(&walk, block) + step : -1;
    for (; ahead-- > 0 && next >= first_place(&walk, pass) && next < s->plan.n_units; next += step)
        sharded_start_gather(s, unit_at(&walk, next));
    int rc = sharded_await_gather(s, block);
    if (rc)
        return error_set(err, rc, "gathering block %d: %s", block, sharded_sentence(s));
    return pass == MODEL_BACKWARD ? take_grads(s, block, err) : 0;
}

static int after_block(void *arg, int block, enum model_pass pass, struct error *err)
{
    struct sharded *s = arg;
    (void)err;
    const struct unit_walk walk = sharded_walk(s);
    s->depth--;
    s->units[block].entered--;
    if (pass == MODEL_FORWARD) {
        if (!unit_stays(&walk, block))
            sharded_release(s, block);
        return 0;
    }
    if (block == 0)
        return 0; /* sharded_flush: its gradient may still grow */
    /* Another block that uses its parameters is left before it; unused ones wait for the flush. */
    if (s->following && s->next == block && s->units[block].missing == 0)
        sharded_unit_done(s, s->next--);
    sharded_release(s, block);
    return 0;
}

int sharded_empty_pass(void *self, enum model_pass pass, struct error *err)
{
    struct sharded *s = self;
    int n = s->plan.n_units, rc = 0;
    sharded_reenter(s);
    for (int i = 0; i < n && !rc && s->hooked; i++) {
        int block = pass == MODEL_FORWARD ? i : n - 1 - i;
        rc = before_block(s, block, pass, err);
        if (pass == MODEL_BACKWARD)
            s->units[block].missing = 0;
        if (!rc)
            rc = after_block(s, block, pass, err);
    }
    return rc;
}

struct model_hooks sharded_hooks(struct sharded *s)
{
    return s->hooked ? (struct model_hooks){before_block, after_block, s} : (struct model_hooks){0};
}
