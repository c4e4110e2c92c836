#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "libworker/nn/model.h"
#include "libworker/parallel/ddp.h"

static void cut(struct ddp *ddp)
{
    ready_plan_cut(&ddp->plan, ddp->params, ddp->count, ddp->order, &ddp->options.sizes);
}

int ddp_init(struct ddp *ddp, const struct ddp_arena *arena, const struct ddp_options *options,
             struct error *err)
{
    size_t n = (size_t)arena->n_params;
    *ddp = (struct ddp){.options = *options,
                        .params = arena->params,
                        .n_params = arena->n_params,
                        .grads = arena->grads,
                        .count = arena->count,
                        .factor = 1,
                        .all = arena->all};
    int rc = ready_plan_init(&ddp->plan, arena->n_params, err);
    if (rc)
        return rc;
    ddp->parts = calloc(n, sizeof(*ddp->parts));
    ddp->order = calloc(n, sizeof(*ddp->order));
    ddp->times = calloc(n, sizeof(*ddp->times));
    ddp->expected = calloc(n, sizeof(*ddp->expected));
    ddp->last = calloc(n, sizeof(*ddp->last));
    ddp->missing = calloc(n, sizeof(*ddp->missing));
    if (!ddp->parts || !ddp->order || !ddp->times || !ddp->expected || !ddp->last ||
        !ddp->missing) {
        ddp_fini(ddp);
        return error_set(err, WK_ENOMEM, "no memory for gradient buckets");
    }
    ddp_meet(ddp);
    return 0;
}

void ddp_fini(struct ddp *ddp)
{
    ready_plan_fini(&ddp->plan);
    free(ddp->parts);
    free(ddp->order);
    free(ddp->times);
    free(ddp->expected);
    free(ddp->last);
    free(ddp->missing);
    *ddp = (struct ddp){0};
}

void ddp_set_hook(struct ddp *ddp, const struct wk_gradient_hook *hook)
{
    ddp->hook = *hook;
}

void ddp_meet(struct ddp *ddp)
{
    ddp->ordered = ddp->recorded = false;
    for (int i = 0; i < ddp->n_params; i++) {
        ddp->order[i] = ddp->n_params - 1 - i;
        /* The last announcements of a static graph are known only after its first pass. */
        ddp->expected[i] = ddp->options.static_graph ? INT_MAX : 1;
    }
    cut(ddp);
}

static void multiply(float *data, float factor, size_t count)
{
    for (size_t i = 0; i < count && factor != 1; i++)
        data[i] *= factor;
}

static void start_bucket(struct ddp *ddp, int bucket)
{
    const struct ready_bucket *b = &ddp->plan.buckets[bucket];
    for (int i = b->first_run; i < b->first_run + b->n_runs && !ddp->failure; i++) {
        const struct ready_run *run = &ddp->plan.runs[i];
        ddp->parts[i] = (struct wk_gradients){.data = ddp->grads + run->offset,
                                              .count = run->count,
                                              .index = i,
                                              .total = ddp->plan.n_runs};
        ddp->started_parts = i + 1;
        multiply(ddp->parts[i].data, ddp->factor, run->count);
        ddp->failure = ddp->hook.start(ddp->hook.arg, ddp->comm, &ddp->parts[i]);
    }
}

static void start_due(struct ddp *ddp)
{
    while (ddp->started < ddp->plan.n_buckets && ddp->missing[ddp->started] == 0)
        start_bucket(ddp, ddp->started++);
}

void ddp_begin(struct ddp *ddp, struct wk_comm *comm, bool last)
{
    ddp->comm = comm;
    ddp->passing = true;
    ddp->syncing = last;
    ddp->clock = ddp->started = ddp->started_parts = 0;
    ddp->failure = 0;
    memset(ddp->times, 0, (size_t)ddp->n_params * sizeof(*ddp->times));
    memset(ddp->last, 0, (size_t)ddp->n_params * sizeof(*ddp->last));
    for (int i = 0; i < ddp->plan.n_buckets; i++)
        ddp->missing[i] = 0;
    for (int i = 0; i < ddp->n_params; i++)
        ddp->missing[ddp->plan.bucket_of[i]] += ddp->expected[i] > 0;
}

void ddp_ready(struct ddp *ddp, int index)
{
    if (!ddp->passing)
        return;
    if (++ddp->times[index] == 1 || ddp->options.static_graph)
        ddp->last[index] = ++ddp->clock;
    if (ddp->times[index] != ddp->expected[index] || !ddp->syncing)
        return;
    ddp->missing[ddp->plan.bucket_of[index]]--;
    start_due(ddp);
}

bool ddp_changed(const struct ddp *ddp)
{
    bool changed = false;
    for (int i = 0; i < ddp->n_params; i++)
        changed = changed || ddp->times[i] != ddp->expected[i];
    /* A pass without announcements is that of an empty share. */
    return changed && ddp->recorded && ddp->clock > 0;
}

void ddp_flush(struct ddp *ddp)
{
    if (!ddp->syncing)
        return;
    memset(ddp->missing, 0, (size_t)ddp->n_params * sizeof(*ddp->missing));
    start_due(ddp);
    if (!ddp->failure)
        ddp->failure = wk_all_reduce(ddp->comm, ddp->grads + ddp->count, ddp->all - ddp->count,
                                     WK_F32, WK_SUM, &ddp->tail);
    if (!ddp->options.static_graph || ddp->recorded || !ddp->clock)
        return;
    memcpy(ddp->expected, ddp->times, (size_t)ddp->n_params * sizeof(*ddp->expected));
    ddp->recorded = true;
}

static int by_last(const void *a, const void *b, void *arg)
{
    const struct ddp *ddp = arg;
    int i = *(const int *)a, j = *(const int *)b;
    int first = ddp->last[i] ? ddp->last[i] : INT_MAX;
    int second = ddp->last[j] ? ddp->last[j] : INT_MAX;
    return first != second ? (first > second) - (first < second) : (j > i) - (j < i);
}

/* All ranks use rank 0's order. */
static int agree_order(struct ddp *ddp)
{
    size_t n = (size_t)ddp->n_params;
    qsort_r(ddp->order, n, sizeof(*ddp->order), by_last, ddp);
    int rc = wk_broadcast(ddp->comm, ddp->order, n, WK_I32, 0, NULL);
    if (rc)
        return rc;
    ddp->ordered = true;
    cut(ddp);
    return 0;
}

int ddp_drain(struct ddp *ddp)
{
    int rc = ddp->failure;
    for (int i = 0; i < ddp->started_parts; i++) {
        int result = ddp->hook.finish(ddp->hook.arg, ddp->comm, &ddp->parts[i]);
        rc = rc ? rc : result;
    }
    int result = wk_wait(ddp->tail);
    ddp->tail = NULL;
    ddp->started_parts = 0;
    ddp->passing = ddp->syncing = false;
    return rc ? rc : result;
}

int ddp_finish(struct ddp *ddp)
{
    if (!ddp->syncing) {
        ddp->passing = false;
        return 0;
    }
    int rc = ddp_drain(ddp);
    return rc || ddp->ordered ? rc : agree_order(ddp);
}
