#include "libworker/graph/chosen.h"

#include <string.h>

#include "common/base/str.h"
#include "libworker/graph/launches.h"
#include "libworker/graph/run.h"

static void count_choice(struct chosen_kernels *all, const char *text)
{
    for (int i = 0; i < all->n; i++) {
        if (!strcmp(all->list[i].text, text)) {
            all->list[i].launches++;
            return;
        }
    }
    if (all->n == CHOSEN_MAX)
        return;
    all->list[all->n].launches = 1;
    (void)str_copy(all->list[all->n++].text, DEVICE_CHOSEN_BYTES, text);
}

static void add_launch(const struct plan *plan, const struct launch *launch,
                       struct chosen_kernels *all)
{
    const struct device *device = plan->options.device;
    const struct device_kernel *kernel = device_kernel_find(device, launch_name_of(launch->node));
    struct op_args args = {.backward = launch->kind == LAUNCH_BACKWARD};
    char text[DEVICE_CHOSEN_BYTES];
    if (!kernel || !kernel->chosen)
        return;
    run_describe(plan, launch, &args.call);
    kernel->chosen(device, &args, text);
    if (*text)
        count_choice(all, text);
}

void chosen_find(const struct plan *plan, struct chosen_kernels *ret)
{
    ret->n = 0;
    if (!plan->options.device || !device_has_kernels(plan->options.device))
        return;
    for (int i = 0; i < plan->n_launches; i++) {
        const struct launch *launch = &plan->launches[i];
        if (launch->kind == LAUNCH_FORWARD || launch->kind == LAUNCH_BACKWARD)
            add_launch(plan, launch, ret);
    }
}
