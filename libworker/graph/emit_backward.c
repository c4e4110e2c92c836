/* Gradients. Each trained value has one while its uses add to it; several may share memory, because
 * the gradient of a sum's parts is that of the sum. The memory is copied before one of them changes
 * while another is still to be read.
 *
 *     uses in the order of the backward pass       first: written, or shared     later: added
 *
 * Gradients are in f32. On devices with kernels that can (keep.h), some are in the compute type:
 * those with one use, which the backward kernel of their work rounds to it in any case.
 */
#include "libworker/graph/bend.h"

/* Where the gradient of a tensor is kept: a view of a parameter adds to the parameter's. */
static struct grad *grad_of(struct emitter *e, struct wk_tensor *tensor)
{
    const struct wk_tensor *base = tensor_base(tensor);
    return &e->grads[base->kind == TENSOR_PARAM ? base->id : tensor->id];
}

static bool takes_gradient(const struct work *work, int input)
{
    const struct wk_tensor *in = work->in[input];
    return in && in->trains && (work->node->row->differentiable & OP_IN(input));
}

static bool passes(const struct work *work, int input)
{
    return work->node->row->view || ((work->node->row->passes_gradient & OP_IN(input)) &&
                                     tensor_same_shape(work->in[input], work->out[0]));
}

/* `narrow`: what computes it can do so in the compute type. */
static void count_use(struct emitter *e, struct wk_tensor *tensor, bool narrow)
{
    struct grad *grad = grad_of(e, tensor);
    grad->narrow = narrow && !grad->uses;
    grad->uses++;
    grad->comes = true;
}

static unsigned narrows(const struct emitter *e, const struct work *work)
{
    return e->keep.narrows[work - e->trace.works];
}

/* The kernel rounds the gradient of its result, and no input has the same. */
static bool rounds_gradient(const struct emitter *e, const struct work *work)
{
    bool rounds = narrows(e, work) & OP_OUT(0);
    for (int k = 0; k < NODE_INPUTS_MAX; k++)
        rounds = rounds && !(takes_gradient(work, k) && passes(work, k));
    return rounds;
}

/* In reverse order a tensor's uses are before the work that makes it, so one walk counts. */
void emit_count_uses(struct emitter *e)
{
    for (int i = 0; i < e->graph->n_losses; i++)
        count_use(e, e->trace.same[e->graph->losses[i].losses->id], false);
    for (int i = e->trace.n - 1; i >= 0; i--) {
        const struct work *work = &e->trace.works[i];
        if (!emit_has_backward(e, work))
            continue;
        struct grad *own = &e->grads[work->out[0]->id];
        own->narrow = own->narrow && rounds_gradient(e, work);
        for (int k = 0; k < NODE_INPUTS_MAX; k++) {
            if (takes_gradient(work, k))
                count_use(e, bend_target(work, k),
                          !passes(work, k) && (narrows(e, work) & OP_IN(k)));
        }
    }
}

bool emit_has_backward(const struct emitter *e, const struct work *work)
{
    struct wk_tensor *out = work->out[0];
    bool of_param = tensor_base(out)->kind == TENSOR_PARAM; /* its uses add to the parameter's */
    return out->trains && !of_param && e->grads[out->id].comes;
}

static int storage_of(const struct emitter *e, int value)
{
    return e->plan->values[value].storage;
}

static int new_grad(struct emitter *e, const struct wk_tensor *tensor, int storage)
{
    bool narrow = e->grads[tensor->id].narrow;
    int value = emit_value(e, tensor, narrow ? e->plan->options.compute : WK_F32, storage);
    e->sharers[storage_of(e, value)]++;
    return value;
}

/* Copy a gradient to memory of its own before it changes, if others there are still to be read. */
static void unshare(struct emitter *e, struct grad *grad, const struct wk_tensor *tensor)
{
    int old = storage_of(e, grad->value);
    if (e->sharers[old] < 2)
        return;
    struct launch copy = emit_blank(LAUNCH_COPY);
    copy.in[0] = grad->value;
    e->sharers[old]--;
    grad->value = copy.out[0] = new_grad(e, tensor, -1);
    emit_launch(e, &copy);
}

/* The value that a use's gradient is written to. *ret_add: added to what is there. */
static int target(struct emitter *e, struct wk_tensor *tensor, bool *ret_add)
{
    const struct wk_tensor *base = tensor_base(tensor);
    struct grad *grad = grad_of(e, tensor);
    grad->uses--;
    if (base->kind == TENSOR_PARAM) {
        int value = emit_value(e, tensor, WK_F32, 0);
        e->plan->values[value].kind = VALUE_IN_PARAM_GRAD;
        e->plan->values[value].index = base->index;
        e->plan->values[value].storage = -1;
        *ret_add = true;
        return value;
    }
    *ret_add = grad->value >= 0;
    if (*ret_add)
        unshare(e, grad, tensor);
    else
        grad->value = new_grad(e, tensor, -1);
    return grad->value;
}

static void ready(struct emitter *e, struct wk_tensor *tensor)
{
    const struct wk_tensor *base = tensor_base(tensor);
    if (base->kind != TENSOR_PARAM || e->grads[base->id].uses)
        return;
    e->grads[base->id].uses = -1; /* announced once */
    struct launch launch = emit_blank(LAUNCH_READY);
    launch.index = base->index;
    emit_launch(e, &launch);
}

void emit_seed(struct emitter *e, int index)
{
    struct wk_tensor *tensor = e->trace.same[e->graph->losses[index].losses->id];
    bool add;
    struct launch seed = emit_blank(LAUNCH_SEED);
    seed.index = index;
    seed.out[0] = target(e, tensor, &add);
    seed.add = add ? 1 : 0;
    emit_launch(e, &seed);
}

/* The gradient of input `input` is that of the output. */
static void pass_on(struct emitter *e, const struct work *work, int input)
{
    struct wk_tensor *tensor = work->in[input];
    struct grad *grad = grad_of(e, tensor);
    int d_out = e->grads[work->out[0]->id].value;
    if (tensor_base(tensor)->kind == TENSOR_VALUE && grad->value < 0) {
        grad->uses--;
        grad->value = new_grad(e, tensor, storage_of(e, d_out));
        return;
    }
    bool added; /* always: there is one */
    struct launch add = emit_blank(LAUNCH_ADD);
    add.in[0] = d_out;
    add.out[0] = target(e, tensor, &added);
    emit_launch(e, &add);
}

/* The kernel, if any gradient is for it to compute. */
static void compute(struct emitter *e, const struct work *work)
{
    const struct node *node = work->node;
    unsigned kept = e->keep.reads[work - e->trace.works];
    struct launch launch = emit_blank(node->row->meets ? LAUNCH_MEET : LAUNCH_BACKWARD);
    bool wanted = false;
    launch.backward = true;
    launch.node = node;
    launch.d_out = e->grads[work->out[0]->id].value;
    for (int i = 0; i < NODE_INPUTS_MAX; i++) {
        if (work->in[i])
            launch.in[i] = kept & OP_IN(i) ? emit_read(e, work, work->in[i], true) : -1;
        if (!takes_gradient(work, i) || passes(work, i))
            continue;
        bool add;
        wanted = true;
        launch.d_in[i] = target(e, bend_target(work, i), &add);
        launch.add |= add ? OP_IN(i) : 0;
    }
    for (int i = 0; i < NODE_OUTPUTS_MAX; i++) {
        if (work->out[i] && (kept & OP_OUT(i)))
            launch.out[i] = emit_read(e, work, work->out[i], true);
    }
    if (wanted)
        emit_kernel(e, &launch);
}

void emit_backward(struct emitter *e, const struct work *work)
{
    compute(e, work);
    for (int i = 0; i < NODE_INPUTS_MAX; i++) {
        if (takes_gradient(work, i) && passes(work, i))
            pass_on(e, work, i);
    }
    e->sharers[storage_of(e, e->grads[work->out[0]->id].value)]--;
    for (int i = NODE_INPUTS_MAX - 1; i >= 0; i--) {
        if (takes_gradient(work, i))
            ready(e, work->in[i]);
    }
}
