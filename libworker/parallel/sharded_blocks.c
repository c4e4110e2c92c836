#include "libworker/parallel/sharded_blocks.h"

#include "libworker/parallel/sharded_grads.h"
#include "libworker/parallel/sharded_params.h"
#include "libworker/parallel/sharded_unit.h"

/* The block that a forward pass enters as number `place`. */
static int block_at(const struct sharded *s, int place)
{
    return s->model->order ? s->model->order[place] : place;
}

static int place_of_block(const struct sharded *s, int block)
{
    int place = 0;
    while (block_at(s, place) != block)
        place++;
    return place;
}

/* Block 0 may serve a tied head inside the last block's brackets, so it stays for the whole step;
 * the last blocks are needed again at once. */
static bool stays_after_forward(const struct sharded *s, int unit)
{
    return s->options.keep_gathered || unit == 0 || unit == s->trained.n_units - 1 ||
           unit == block_at(s, s->plan.n_units - 1);
}

/* The first place that a pass may enter: backward, nothing trained is before unit 0. */
static int first_place(const struct sharded *s, enum model_pass pass)
{
    return pass == MODEL_FORWARD ? 0 : place_of_block(s, 0);
}

static int before_block(void *arg, int block, enum model_pass pass, struct error *err)
{
    struct sharded *s = arg;
    int step = pass == MODEL_FORWARD ? 1 : -1;
    int ahead = s->depth++ ? 0 : s->options.prefetch; /* a tied head's block 0 is no road sign */
    sharded_start_gather(s, block);
    int next = ahead > 0 ? place_of_block(s, block) + step : -1;
    for (; ahead-- > 0 && next >= first_place(s, pass) && next < s->plan.n_units; next += step)
        sharded_start_gather(s, block_at(s, next));
    int rc = sharded_await_gather(s, block);
    return rc ? error_set(err, rc, "gathering block %d: %s", block, sharded_sentence(s)) : 0;
}

static int after_block(void *arg, int block, enum model_pass pass, struct error *err)
{
    struct sharded *s = arg;
    (void)err;
    s->depth--;
    if (pass == MODEL_FORWARD) {
        if (!stays_after_forward(s, block))
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
    s->depth = 0;
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
