#include <stdlib.h>

#include "libworker/parallel/hook.h"

struct hook_sum {
    bool watch;
    bool watching;   /* in this pass */
    int total;       /* parts of this pass */
    int nonfinite[]; /* [n_params], by part: its sum is not finite */
};

static int start(void *arg, struct wk_comm *comm, struct wk_gradients *gradients)
{
    struct hook_sum *hook = arg;
    float *data = gradients->data;
    const struct wk_buffers buffers = {data, data, gradients->count, WK_F32};
    const struct wk_reduce_options watch = {.ret_nonfinite = &hook->nonfinite[gradients->index]};
    struct wk_work *work = NULL;
    hook->total = gradients->total;
    hook->watching = hook->watch && wk_comm_world(comm) > 1;
    int rc = hook->watching ? wk_all_reduce_with(comm, &buffers, WK_SUM, &watch, &work)
                            : wk_all_reduce(comm, data, gradients->count, WK_F32, WK_SUM, &work);
    gradients->own = work;
    return rc;
}

static int finish(void *arg, struct wk_comm *comm, struct wk_gradients *gradients)
{
    (void)arg;
    (void)comm;
    return wk_wait(gradients->own);
}

static enum sums sums(const void *arg)
{
    const struct hook_sum *hook = arg;
    int nonfinite = 0;
    for (int i = 0; i < hook->total; i++)
        nonfinite |= hook->nonfinite[i];
    if (!hook->watching)
        return SUMS_UNJUDGED;
    return nonfinite ? SUMS_NONFINITE : SUMS_FINITE;
}

/* Takes ownership. */
static struct grad_hook as_hook(struct hook_sum *hook)
{
    return (struct grad_hook){
        .face = {"sum", start, finish, hook},
        .free = free,
        .sums = sums,
        .plain = true,
    };
}

int hook_sum_new(const struct hook_model *model, bool watch, struct grad_hook *ret,
                 struct error *err)
{
    size_t flags_bytes = (size_t)model->n_params * sizeof(int);
    struct hook_sum *hook = calloc(1, sizeof(*hook) + flags_bytes);
    if (!hook)
        return error_set(err, WK_ENOMEM, "no memory for %d flags", model->n_params);
    hook->watch = watch;
    *ret = as_hook(hook);
    return 0;
}
