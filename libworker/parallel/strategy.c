#include "libworker/parallel/strategy.h"

#include "libworker/device/kernels.h"
#include "libworker/parallel/custom.h"
#include "libworker/parallel/ddp.h"
#include "libworker/parallel/launches.h"
#include "libworker/parallel/sharded.h"
#include "libworker/parallel/strategy_grads.h"
#include "libworker/parallel/strategy_ops.h"

static const struct strategy_ops *const tables[STRATEGY_KINDS] = {
    [STRATEGY_DDP] = &ddp_ops,
    [STRATEGY_ZERO1] = &sharded_ops,
    [STRATEGY_ZERO2] = &sharded_ops,
    [STRATEGY_FSDP] = &sharded_ops,
};

bool strategy_cuts(enum strategy_kind kind)
{
    return tables[kind]->cuts;
}

static void announced(void *arg, int index)
{
    strategy_ready(arg, index);
}

static int meet_ranks(void *arg, const struct model_meeting *meeting, struct error *err)
{
    static const enum wire_op ops[] = {
        [MODEL_SUM] = WIRE_SUM, [MODEL_GATHER] = WIRE_GATHER, [MODEL_SCATTER] = WIRE_SCATTER};
    struct strategy *st = arg;
    struct event before = event_record(st->model->queue);
    st->met = true;
    const struct wire_call call = {.op = ops[meeting->kind],
                                   .in = meeting->from,
                                   .out = meeting->to,
                                   .count = meeting->n,
                                   .ready = before,
                                   .unused = before};
    return wire_run(&st->wire, st->comm, &call, err);
}

/* Its memory goes. */
static void unbind(struct wk_model *model)
{
    model->hooks = (struct model_hooks){0};
    model->ranks = (struct model_ranks){0};
    model->grad_ready = NULL;
    model->grad_ready_arg = NULL;
    (void)model_set_compute(model, WK_F32, NULL, NULL);
    model->param_arena = model->grad_arena = NULL;
    for (int i = 0; i < model->n_params; i++)
        model->params[i].data = model->params[i].grad = model->params[i].host = NULL;
}

/* What is the same for all tables. */
static int init_common(struct strategy *st, struct error *err)
{
    struct wk_model *model = st->model;
    float *used = step_numbers_used(&st->numbers);
    int rc = own_passes_init(&st->own, model, st->narrowing.type, st->ops->cuts, err);
    if (!rc)
        rc = usage_init(&st->usage, model_trained(model), used, err);
    if (rc)
        return rc;
    model->grad_ready = announced;
    model->grad_ready_arg = st;
    return 0;
}

/* A device with kernels of its own has those that these settings need. */
static int check_kernels(const struct wk_model *model, const struct strategy_options *options,
                         struct error *err)
{
    const struct device *device = queue_device(model->queue);
    bool own = model_is_custom(model);
    bool low = narrowing_on(&options->narrowing), cuts = strategy_cuts(options->kind);
    bool narrow_hook = !cuts && (options->hook == HOOK_F16 || options->hook == HOOK_BF16);
    const struct {
        bool needed;
        const char *name;
    } launches[] = {
        {true, PARALLEL_SCALE},
        {cuts, PARALLEL_ADD},
        {narrow_hook, PARALLEL_NARROW},
        {narrow_hook, PARALLEL_WIDEN},
        {cuts && low && options->narrowing.grads, PARALLEL_ADD_NARROW},
        {low, PARALLEL_NARROW_MODEL},
        {low && own, PARALLEL_WIDEN},
        {low && own, PARALLEL_ADD_WIDENED},
        {options->kind == STRATEGY_ZERO1, PARALLEL_COMPACT},
    };
    int rc = 0;
    for (size_t i = 0; i < sizeof(launches) / sizeof(*launches) && !rc; i++)
        rc = launches[i].needed ? device_kernel_need(device, "launch", launches[i].name, err) : 0;
    return rc;
}

int strategy_init(struct strategy *st, struct wk_model *model,
                  const struct strategy_options *options, struct error *err)
{
    const struct strategy_ops *ops = tables[options->kind];
    *st = (struct strategy){
        .ops = ops,
        .model = model,
        .narrowing = options->narrowing,
        .offload = {options->offload,
                    ops->cuts && options->offload && options->offload_params,
                    options->offload_host,
                    {0}},
        .unused_fine = options->unused_fine || options->static_graph,
        .unscaled = options->unscaled,
        .fill_later = options->fill_later,
        .share = 1,
    };
    int rc = step_numbers_init(&st->numbers, model_trained(model), model->queue, err);
    wire_init(&st->wire, model->queue, options->wires);
    if (!rc)
        rc = check_kernels(model, options, err);
    if (!rc)
        rc = ops->open(model, options, &st->numbers, &st->memory, err);
    st->offload.masters = st->memory.range.masters;
    if (!rc)
        rc = init_common(st, err);
    if (rc)
        strategy_fini(st);
    return rc;
}

void strategy_fini(struct strategy *st)
{
    if (!st->ops)
        return;
    strategy_drain(st);
    own_passes_fini(&st->own);
    usage_fini(&st->usage);
    unbind(st->model);
    if (st->memory.self)
        st->ops->close(st->memory.self);
    wire_fini(&st->wire);
    step_numbers_fini(&st->numbers);
    *st = (struct strategy){0};
}

int strategy_meet(struct strategy *st, struct wk_comm *comm, struct error *err)
{
    int rc = st->ops->meet(st->memory.self, comm);
    st->wire.why = (struct error){0};
    st->model->ranks = (struct model_ranks){wk_comm_world(comm), meet_ranks, st};
    return rc ? error_set(err, rc, "%s", wk_comm_error(comm)) : 0;
}

int strategy_regroup(struct strategy *st, struct wk_comm *comm, const struct layout *layout,
                     struct error *err)
{
    return st->ops->regroup(st->memory.self, comm, layout, err);
}

void strategy_settle(struct strategy *st)
{
    if (st->ops &&
        st->phase != STRATEGY_RESTING) { /* its sums may have no peers: nothing else ends them */
        wk_comm_abort(st->comm);
        strategy_drain(st);
    }
}

void strategy_leave(struct strategy *st)
{
    if (!st->ops)
        return;
    strategy_settle(st);
    st->ops->leave(st->memory.self);
    st->comm = NULL;
    st->model->ranks = (struct model_ranks){0};
}

int strategy_check(const struct strategy *st, struct error *err)
{
    int rc = wires_failure(st->wire.wires);
    return rc ? error_set(err, rc, "%s", strategy_sentence(st)) : 0;
}

int strategy_check_pass(const struct strategy *st, struct error *err)
{
    return st->ops->cuts || st->met ? strategy_check(st, err) : 0;
}

const char *strategy_sentence(const struct strategy *st)
{
    const char *sentence = st->ops ? st->ops->sentence(st->memory.self) : "";
    return *sentence || !st->comm ? sentence : wk_comm_error(st->comm);
}

int strategy_set_hook(struct strategy *st, const struct wk_gradient_hook *hook)
{
    return st->ops->set_hook(st->memory.self, hook);
}

bool strategy_unfilled(const struct strategy *st)
{
    return st->fill_later;
}

int strategy_fill(struct strategy *st, struct wk_comm *comm, struct error *err)
{
    return st->ops->fill(st->memory.self, comm, err);
}

const struct strategy_range *strategy_range(const struct strategy *st)
{
    return &st->memory.range;
}

const struct shard_plan *strategy_plan(const struct strategy *st)
{
    return st->memory.plan;
}

int strategy_bind(struct strategy *st, struct wk_optimizer *optimizer, struct error *err)
{
    const struct strategy_range *range = &st->memory.range;
    const struct optimizer_copy copy = {range->low, st->narrowing.type, st->narrowing.stochastic,
                                        st->narrowing.seed};
    optimizer_set_offload(optimizer, &st->offload);
    int rc = optimizer_bind(optimizer, range->params, range->n_params, 0, range->count, err);
    if (!rc && range->low)
        rc = optimizer_set_copy(optimizer, &copy, err);
    return rc;
}

int strategy_refresh(struct strategy *st, struct wk_comm *comm)
{
    own_passes_hide(&st->own);
    return st->ops->refresh(st->memory.self, comm);
}

const struct param *strategy_own(const struct strategy *st, int index, size_t *ret_first)
{
    return st->ops->own(st->memory.self, index, ret_first);
}

void strategy_use(struct strategy *st, struct wk_comm *comm)
{
    st->comm = comm;
    st->met = false;
    st->ops->use(st->memory.self, comm);
}

int strategy_empty_pass(struct strategy *st, enum model_pass pass, struct error *err)
{
    return st->ops->empty_pass(st->memory.self, pass, err);
}

/* The host reads them next. */
int strategy_gather(struct strategy *st, struct wk_comm *comm)
{
    int rc = st->ops->gather(st->memory.self, comm);
    if (rc || !st->ops->cuts || wire_way(&st->wire, comm) == WIRE_DIRECT)
        return rc;
    rc = queue_finish(st->model->queue, NULL);
    if (rc)
        return rc;
    return wires_failure(st->wire.wires);
}

int strategy_gather_own(struct strategy *st, struct wk_comm *comm)
{
    int rc = st->ops->gather_own(st->memory.self, comm);
    if (!rc && !st->model->hooks.before_block)
        own_passes_show(&st->own);
    return rc;
}

void strategy_show_master(struct strategy *st)
{
    own_passes_hide(&st->own);
}
