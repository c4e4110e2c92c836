#include "libworker/graph/repeat.h"

#include <stdio.h>

#include "common/base/parse.h"
#include "libworker/graph/launches.h"

static double bytes_of(const struct plan *plan, int value)
{
    if (value < 0)
        return 0;
    const struct plan_value *v = &plan->values[value];
    return (double)v->count * (double)wk_dtype_bytes(v->type);
}

/* Whether the pass' queue does work for it. Copies to the host have queues of their own. */
static bool is_work(const struct launch *launch)
{
    return launch->kind != LAUNCH_ENTER && launch->kind != LAUNCH_LEAVE &&
           launch->kind != LAUNCH_READY && launch->kind != LAUNCH_MEET &&
           !launch_is_host_copy(launch);
}

/* Each tensor once. */
static double launch_bytes(const struct plan *plan, const struct launch *launch)
{
    double bytes = bytes_of(plan, launch->d_out);
    for (int i = 0; i < NODE_INPUTS_MAX; i++)
        bytes += bytes_of(plan, launch->in[i]) + bytes_of(plan, launch->d_in[i]);
    for (int i = 0; i < NODE_OUTPUTS_MAX; i++)
        bytes += bytes_of(plan, launch->out[i]);
    return bytes;
}

double repeat_bytes_each(const struct plan *plan)
{
    double bytes = 0;
    int n = 0;
    for (int i = 0; i < plan->n_launches; i++) {
        if (!is_work(&plan->launches[i]))
            continue;
        bytes += launch_bytes(plan, &plan->launches[i]);
        n++;
    }
    return n ? bytes / n : 0;
}

bool repeat_pays(const struct plan *plan, enum device_graphs choice)
{
    return !plan->options.trace.decode && replay_pays(choice, repeat_bytes_each(plan));
}

void repeat_reason(const struct plan *plan, enum device_graphs choice,
                   char ret[REPEAT_REASON_BYTES])
{
    const struct trace_options *trace = &plan->options.trace;
    const char *passes = trace->trains ? "training passes" : "other passes";
    const char *pays = repeat_pays(plan, choice) ? "yes" : "no",
               *limit = *pays == 'y' ? "" : "not ";
    char each[FORMAT_MAX], most[FORMAT_MAX];
    if (trace->decode)
        (void)snprintf(ret, REPEAT_REASON_BYTES,
                       "graphs of decoding: no, its positions are arguments");
    else if (choice == DEVICE_GRAPHS_AUTO)
        (void)snprintf(ret, REPEAT_REASON_BYTES,
                       "graphs of %s: %s, a launch moves %s on average, %sless than %s", passes,
                       pays, format_bytes((uint64_t)repeat_bytes_each(plan), each), limit,
                       format_bytes(REPLAY_BYTES_EACH, most));
    else
        (void)snprintf(ret, REPEAT_REASON_BYTES, "graphs of %s: %s, compile is %s", passes, pays,
                       choice == DEVICE_GRAPHS_ON ? "on" : "off");
}

static size_t args_bytes(const struct launch *launch)
{
    switch (launch->kind) {
    case LAUNCH_FORWARD:
    case LAUNCH_BACKWARD:
        return sizeof(struct op_args);
    case LAUNCH_LOSS:
    case LAUNCH_ADD:
    case LAUNCH_SEED:
        return sizeof(struct row_args);
    case LAUNCH_COPY:
    case LAUNCH_UPDATE:
    case LAUNCH_MEET:
    case LAUNCH_ENTER:
    case LAUNCH_LEAVE:
    case LAUNCH_READY:
    case LAUNCH_OUT:
    case LAUNCH_OUT_DONE:
    case LAUNCH_BACK:
    case LAUNCH_BACK_DONE:
        break;
    }
    return 0; /* a copy, or nothing */
}

struct repeat_needs repeat_needs(const struct plan *plan)
{
    struct repeat_needs needs = {0};
    for (int i = 0; i < plan->n_launches; i++) {
        if (!is_work(&plan->launches[i]))
            continue;
        needs.launches++;
        needs.host_bytes += replay_work_bytes(args_bytes(&plan->launches[i]));
    }
    return needs;
}
