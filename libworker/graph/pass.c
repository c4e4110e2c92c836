#include "libworker/graph/pass.h"

#include <stdlib.h>
#include <string.h>

#include <worker/error.h>

#include "libworker/device/remark.h"
#include "libworker/device/replay.h"
#include "libworker/graph/carry.h"
#include "libworker/graph/chosen.h"
#include "libworker/graph/op/custom.h"
#include "libworker/graph/repeat.h"

static bool is_planned(const struct plan *plan, const struct plan_options *wanted)
{
    const struct plan_options *has = &plan->options;
    return has->sizes.samples == wanted->sizes.samples &&
           has->sizes.length == wanted->sizes.length && has->sizes.ranks == wanted->sizes.ranks &&
           has->compute == wanted->compute && has->recompute == wanted->recompute &&
           has->within == wanted->within && has->trace.trains == wanted->trace.trains &&
           has->trace.drops == wanted->trace.drops && has->trace.losses == wanted->trace.losses &&
           has->trace.outputs == wanted->trace.outputs &&
           has->trace.decode == wanted->trace.decode && has->trace.fills == wanted->trace.fills &&
           has->capacity == wanted->capacity && has->offload == wanted->offload &&
           has->apart == wanted->apart && has->device == wanted->device;
}

struct sizes pass_sizes(const struct graph_model *m, int64_t samples, int64_t length)
{
    return (struct sizes){samples, m->graph->uses_length ? length : 1,
                          m->graph->uses_ranks ? m->model.ranks.count : 1};
}

/* Move plan `i` to the front. */
static struct plan *use_plan(struct graph_model *m, int i)
{
    struct plan *plan = m->plans[i];
    memmove(&m->plans[1], &m->plans[0], (size_t)i * sizeof(struct plan *));
    m->plans[0] = plan;
    return plan;
}

void pass_forget(struct graph_model *m, struct plan *plan)
{
    if (plan && plan->repeats)
        replay_drop(m->site.queue, plan);
    plan_free(plan);
}

/* Which kernels the device has chosen for a new plan. */
static void remark_kernels(const struct graph_model *m, const struct plan *plan)
{
    struct chosen_kernels chosen;
    chosen_find(plan, &chosen);
    for (int i = 0; i < chosen.n; i++)
        device_remark(m->site.device, chosen.list[i].text);
}

/* Whether passes are graphs, once for each kind of them: lengths and batches may be many. */
static void remark_graphs(struct graph_model *m, const struct plan *plan)
{
    const struct trace_options *trace = &plan->options.trace;
    enum device_graphs choice = m->site.device ? device_graphs(m->site.device) : DEVICE_GRAPHS_OFF;
    int kind = trace->decode ? 0 : trace->trains ? 1 : 2;
    unsigned bit = 1U << (2 * kind + (plan->repeats ? 1 : 0));
    char text[REPEAT_REASON_BYTES];
    if (choice == DEVICE_GRAPHS_OFF || m->told & bit)
        return;
    m->told |= bit;
    repeat_reason(plan, choice, text);
    device_remark(m->site.device, text);
}

int pass_plan(struct graph_model *m, const struct trace_options *trace, const struct sizes *sizes,
              struct plan **ret_plan, struct error *err)
{
    const struct low *low = m->model.low;
    struct plan_options wanted = {
        .trace = *trace,
        .sizes = *sizes,
        .compute = low ? low->type : WK_F32,
        .recompute = trace->trains ? m->model.recompute : WK_RECOMPUTE_NONE,
        .within = trace->trains ? m->model.recompute_bytes : 0,
        .capacity = trace->decode ? m->capacity : 0,
        .offload = trace->trains && m->model.offloads && !device_host_reads(m->site.device),
        .apart = m->apart,
        .device = m->site.device};
    for (int i = 0; i < GRAPH_PLANS_KEPT; i++) {
        if (m->plans[i] && is_planned(m->plans[i], &wanted)) {
            *ret_plan = use_plan(m, i);
            return 0;
        }
    }
    struct plan *plan;
    int rc = plan_new(m->graph, &wanted, m->blocks, &plan, err);
    if (rc)
        return rc;
    remark_kernels(m, plan);
    remark_graphs(m, plan);
    pass_forget(m, m->plans[GRAPH_PLANS_KEPT - 1]);
    m->plans[GRAPH_PLANS_KEPT - 1] = plan;
    *ret_plan = use_plan(m, GRAPH_PLANS_KEPT - 1);
    return 0;
}

/* Operations of the program's own have functions for the device. */
static int check_functions(const struct plan *plan, const char *device, struct error *err)
{
    int rc = 0;
    for (int i = 0; i < plan->n_forward && !rc; i++) {
        if (plan->launches[i].kind == LAUNCH_FORWARD)
            rc = custom_check_device(plan->launches[i].node, device, err);
    }
    return rc;
}

int pass_prepare(struct graph_model *m, const struct plan *plan, const struct wk_batch *batch,
                 struct error *err)
{
    struct site *site = &m->site;
    bool trains = plan->options.trace.trains;
    const char *device = device_kernels(site->device);
    int rc = check_functions(plan, device, err);
    if (rc)
        return rc;
    rc = site_reserve(site, plan->region_bytes ? plan->region_bytes : DEVICE_ALIGN_BYTES, err);
    if (!rc)
        rc = host_copies_reserve(&site->copies, site->queue, plan->host_bytes, err);
    if (rc)
        return error_wrap(err, "a pass of %lld samples", (long long)plan->options.sizes.samples);
    host_copies_settle(&site->copies, site->queue);
    m->run = (struct run){
        .model = &m->model,
        .queue = site->queue,
        .numbers = site->numbers,
        .region = site->region,
        .cache = site->cache,
        .noted = site->noted,
        .copies = &site->copies,
        .pass =
            {
                .kernels = m->model.kernels,
                .device = device,
                .room = m->model.low ? m->model.low->room : NULL,
                .trains = trains,
                .samples = batch->samples,
                .first_sample = batch->position + batch->first,
                .seed = m->model.dropout_seed,
                .dropout = (double)m->model.dropout,
                .smoothing = trains ? (double)m->model.label_smoothing : 0,
            },
    };
    rc = carry_begin(m, trains, err);
    if (rc)
        return error_wrap(err, "the buffers of a pass");
    numbers_clear(site->numbers, site->queue);
    run_note_keys(&m->run);
    const struct inputs_wanted wanted = {m->graph, batch, &plan->options.sizes};
    rc = inputs_send(&site->inputs, site->queue, &wanted, m->run.inputs, err);
    for (int i = 0; i < m->graph->n_inputs && batch->samples == 0; i++)
        m->run.inputs[i] = site->region; /* of nothing: kernels get an address */
    if (rc)
        (void)error_wrap(err, "the inputs of %lld samples", (long long)batch->samples);
    return rc;
}

int pass_output(const struct wk_graph *graph, const char *name)
{
    for (int i = 0; i < graph->n_outputs; i++) {
        if (!strcmp(graph->outputs[i].name, name))
            return i;
    }
    return -1;
}

int pass_fetch(const struct graph_model *m, const struct plan *plan, int value,
               const float **ret_values, float **ret_copy, struct error *err)
{
    const void *at = run_address(&m->run, plan, value);
    size_t bytes = (size_t)plan->values[value].count * sizeof(float);
    *ret_copy = NULL;
    *ret_values = at;
    if (device_host_reads(m->site.device))
        return queue_finish(m->site.queue, err);
    *ret_copy = malloc(bytes + 1);
    *ret_values = *ret_copy;
    if (!*ret_copy)
        return error_set(err, WK_ENOMEM, "no memory for the values of an evaluation");
    return queue_read(m->site.queue, *ret_copy, at, bytes, err);
}
