#include <stdlib.h>
#include <string.h>

#include "libworker/nn/model.h"
#include "libworker/parallel/ddp.h"

int ddp_init(struct ddp *ddp, const struct ddp_arena *arena, const struct bucket_sizes *sizes,
             struct error *err)
{
    size_t n = (size_t)arena->n_params;
    *ddp = (struct ddp){.grads = arena->grads, .count = arena->count, .n_params = arena->n_params};
    ddp->buckets = calloc(n, sizeof(*ddp->buckets));
    ddp->bucket_of = calloc(n, sizeof(*ddp->bucket_of));
    ddp->ready = calloc(n, sizeof(*ddp->ready));
    ddp->missing = calloc(n, sizeof(*ddp->missing));
    ddp->work = calloc(n, sizeof(struct wk_work *));
    ddp->wild = calloc(n, sizeof(*ddp->wild));
    if (!ddp->buckets || !ddp->bucket_of || !ddp->ready || !ddp->missing || !ddp->work ||
        !ddp->wild) {
        ddp_fini(ddp);
        return error_set(err, WK_ENOMEM, "no memory for gradient buckets");
    }
    ddp->n_buckets = bucket_cut(arena->params, arena->n_params, arena->count, sizes, ddp->buckets,
                                ddp->bucket_of);
    return 0;
}

void ddp_fini(struct ddp *ddp)
{
    free(ddp->buckets);
    free(ddp->bucket_of);
    free(ddp->ready);
    free(ddp->missing);
    free(ddp->work);
    free(ddp->wild);
    *ddp = (struct ddp){0};
}

void ddp_begin(struct ddp *ddp, struct wk_comm *comm)
{
    ddp->comm = comm;
    ddp->syncing = true;
    ddp->started = 0;
    ddp->failure = 0;
    memset(ddp->ready, 0, (size_t)ddp->n_params * sizeof(*ddp->ready));
    for (int i = 0; i < ddp->n_buckets; i++)
        ddp->missing[i] = ddp->buckets[i].params;
}

static int start_bucket(struct ddp *ddp, int index, struct wk_work **ret_work)
{
    const struct bucket *bucket = &ddp->buckets[index];
    float *grads = ddp->grads + bucket->offset;
    const struct wk_buffers buffers = {grads, grads, bucket->count, WK_F32};
    const struct wk_reduce_options watch = {.ret_nonfinite = &ddp->wild[index]};
    return ddp->watch ? wk_all_reduce_with(ddp->comm, &buffers, WK_SUM, &watch, ret_work)
                      : wk_all_reduce(ddp->comm, grads, bucket->count, WK_F32, WK_SUM, ret_work);
}

static void start_due(struct ddp *ddp)
{
    while (ddp->started < ddp->n_buckets && ddp->missing[ddp->started] == 0) {
        struct wk_work *work = NULL;
        if (!ddp->failure)
            ddp->failure = start_bucket(ddp, ddp->started, &work);
        ddp->work[ddp->started++] = work;
    }
}

void ddp_ready(struct ddp *ddp, int index)
{
    if (!ddp->syncing || ddp->ready[index])
        return;
    ddp->ready[index] = true;
    ddp->missing[ddp->bucket_of[index]]--;
    start_due(ddp);
}

void ddp_flush(struct ddp *ddp)
{
    for (int i = ddp->n_params - 1; i >= 0; i--)
        ddp_ready(ddp, i);
}

int ddp_finish(struct ddp *ddp)
{
    if (!ddp->syncing)
        return 0;
    int rc = ddp->failure;
    for (int i = 0; i < ddp->started; i++) {
        int result = wk_wait(ddp->work[i]);
        if (!rc)
            rc = result;
        ddp->work[i] = NULL;
    }
    ddp->syncing = false;
    return rc;
}

bool ddp_finite(const struct ddp *ddp)
{
    int wild = 0;
    for (int i = 0; i < ddp->n_buckets; i++)
        wild |= ddp->wild[i];
    return !wild;
}
