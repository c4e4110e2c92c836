#include <stdlib.h>
#include <string.h>

#include "common/base/str.h"
#include "libworker/nn/model.h"
#include "libworker/parallel/usage.h"

enum { NAMED_MAX = 4, NAMES_BYTES = NAMED_MAX * (PARAM_NAME_MAX + 32) };

size_t usage_room(int n_params)
{
    return (size_t)n_params + 1;
}

int usage_init(struct usage *usage, int n_params, float *used, struct error *err)
{
    *usage = (struct usage){.n_params = n_params, .used = used};
    usage->announced = calloc((size_t)n_params, sizeof(*usage->announced));
    return usage->announced ? 0 : error_set(err, WK_ENOMEM, "no memory for %d flags", n_params);
}

void usage_fini(struct usage *usage)
{
    free(usage->announced);
    *usage = (struct usage){0};
}

void usage_begin(struct usage *usage)
{
    memset(usage->announced, 0, (size_t)usage->n_params * sizeof(*usage->announced));
    usage->any = false;
}

void usage_note(struct usage *usage, int index)
{
    usage->announced[index] = usage->any = true;
}

void usage_end(struct usage *usage, bool changed)
{
    for (int i = 0; i < usage->n_params; i++)
        if (usage->announced[i] || !usage->any)
            usage->used[i] = 1;
    if (changed)
        usage->used[usage->n_params] = 1;
}

int usage_check(const struct usage *usage, const struct param *params, int world, bool unused_fine,
                struct error *err)
{
    char names[NAMES_BYTES] = "";
    int unused = 0;
    if (usage->used[usage->n_params] > 0)
        return error_set(err, WK_ESTATE,
                         "on %d of %d ranks a backward pass announced other gradients than the "
                         "first one, though ddp.static_graph promises the same",
                         (int)usage->used[usage->n_params], world);
    for (int i = 0; i < usage->n_params && !unused_fine; i++) {
        char one[PARAM_NAME_MAX + 32];
        int ranks = (int)usage->used[i];
        if (ranks >= world || unused++ >= NAMED_MAX)
            continue;
        (void)str_printf(one, sizeof(one), "%s%s (on %d of %d)", *names ? ", " : "", params[i].name,
                         ranks, world);
        (void)str_printf(names + strlen(names), sizeof(names) - strlen(names), "%s", one);
    }
    if (!unused)
        return 0;
    (void)error_set(err, WK_ESTATE,
                    "%d of %d parameters were not ready on every rank in the backward passes of "
                    "this step: %s%s",
                    unused, usage->n_params, names, unused > NAMED_MAX ? ", …" : "");
    error_hint(err, "announce all of them (wk_grad_ready), or none, or set ddp.find_unused");
    return WK_ESTATE;
}
