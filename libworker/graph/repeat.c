#include "libworker/graph/repeat.h"

static double bytes_of(const struct plan *plan, int value)
{
    if (value < 0)
        return 0;
    const struct plan_value *v = &plan->values[value];
    return (double)v->count * (double)wk_dtype_bytes(v->type);
}

static bool is_work(const struct launch *launch)
{
    return launch->kind != LAUNCH_ENTER && launch->kind != LAUNCH_LEAVE &&
           launch->kind != LAUNCH_READY && launch->kind != LAUNCH_MEET;
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
    if (plan->options.trace.decode)
        return false;
    switch (choice) {
    case DEVICE_GRAPHS_ON:
        return true;
    case DEVICE_GRAPHS_AUTO:
        return repeat_bytes_each(plan) < REPEAT_BYTES_EACH;
    case DEVICE_GRAPHS_OFF:
        return false;
    }
    return false;
}
