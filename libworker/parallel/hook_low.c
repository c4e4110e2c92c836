#include <stdlib.h>

#include "libworker/kernel/kernel.h"
#include "libworker/parallel/hook.h"

struct hook_low {
    struct hook_model model;
    enum wk_dtype type;
    struct wk_arena *arena;
    uint16_t *low; /* [model.count]: element i is gradient i rounded */
};

static uint16_t *low_of(const struct hook_low *hook, const struct wk_gradients *gradients)
{
    return hook->low + (gradients->data - hook->model.grads);
}

static int start(void *arg, struct wk_comm *comm, struct wk_gradients *gradients)
{
    const struct hook_low *hook = arg;
    struct wk_work *work = NULL;
    uint16_t *low = low_of(hook, gradients);
    hook->model.kernels->narrow(low, hook->type, gradients->data, gradients->count);
    int rc = wk_all_reduce(comm, low, gradients->count, hook->type, WK_SUM, &work);
    gradients->own = work;
    return rc;
}

static int finish(void *arg, struct wk_comm *comm, struct wk_gradients *gradients)
{
    const struct hook_low *hook = arg;
    (void)comm;
    int rc = wk_wait(gradients->own);
    if (!rc)
        hook->model.kernels->widen(gradients->data, hook->type, low_of(hook, gradients),
                                   gradients->count);
    return rc;
}

static int meet(void *arg, struct wk_comm *comm)
{
    return wk_comm_register(comm, ((struct hook_low *)arg)->arena);
}

static void hook_free(void *arg)
{
    struct hook_low *hook = arg;
    wk_arena_free(hook->arena);
    free(hook);
}

static const char *name_of(enum wk_dtype type)
{
    return type == WK_F16 ? "fp16" : "bf16";
}

int hook_low_new(const struct hook_model *model, enum wk_dtype type, struct grad_hook *ret,
                 struct error *err)
{
    struct hook_low *hook = calloc(1, sizeof(*hook));
    if (!hook || wk_arena_new(model->count * sizeof(*hook->low), &hook->arena)) {
        free(hook);
        return error_set(err, WK_ENOMEM, "no memory for gradients in %s",
                         type == WK_F16 ? "f16" : "bf16");
    }
    hook->model = *model;
    hook->type = type;
    hook->low = wk_arena_data(hook->arena);
    *ret = (struct grad_hook){
        .face = {name_of(type), start, finish, hook},
        .meet = meet,
        .free = hook_free,
    };
    return 0;
}

static int start_narrow(void *arg, struct wk_comm *comm, struct wk_gradients *gradients)
{
    const struct hook_low *hook = arg;
    struct wk_work *work = NULL;
    int rc = wk_all_reduce(comm, gradients->data, gradients->count, hook->type, WK_SUM, &work);
    gradients->own = work;
    return rc;
}

static int finish_narrow(void *arg, struct wk_comm *comm, struct wk_gradients *gradients)
{
    (void)arg;
    (void)comm;
    return wk_wait(gradients->own);
}

/* Takes ownership. */
static struct grad_hook as_narrow(struct hook_low *hook)
{
    return (struct grad_hook){
        .face = {name_of(hook->type), start_narrow, finish_narrow, hook},
        .free = free,
        .type = hook->type,
    };
}

int hook_narrow_new(enum wk_dtype type, struct grad_hook *ret, struct error *err)
{
    struct hook_low *hook = calloc(1, sizeof(*hook));
    if (!hook)
        return error_set(err, WK_ENOMEM, "no memory for a gradient hook");
    hook->type = type;
    *ret = as_narrow(hook);
    return 0;
}
