#include "libworker/data/ahead.h"

#include <stdlib.h>

#include "common/base/array.h"

void ahead_forget(struct wk_loader *loader)
{
    for (int i = 0; i < loader->n_ahead; i++)
        loader->ahead[i].range.count = 0;
}

void ahead_fini(struct wk_loader *loader)
{
    for (int i = 0; i < loader->n_ahead; i++)
        free(loader->ahead[i].arrays.memory);
    free(loader->ahead);
}

/* Arrays with nothing in them, or NULL without memory. */
static struct loader_ahead *find_free(struct wk_loader *loader)
{
    for (int i = 0; i < loader->n_ahead; i++) {
        if (!loader->ahead[i].range.count)
            return &loader->ahead[i];
    }
    struct loader_ahead *grown = array_reserve_or_null(
        loader->ahead, loader->n_ahead, &loader->ahead_capacity, sizeof(*loader->ahead));
    if (!grown)
        return NULL;
    loader->ahead = grown;
    grown[loader->n_ahead] = (struct loader_ahead){.range = {0}};
    return &grown[loader->n_ahead++];
}

int ahead_read(struct wk_loader *loader, const struct share_range *range,
               struct loader_arrays **ret_arrays, struct error *err)
{
    struct loader_ahead *ahead = find_free(loader);
    if (!ahead)
        return error_set(err, WK_ENOMEM, "no memory to read a batch ahead");
    int rc = share_read(loader, &ahead->arrays, range, err);
    if (rc)
        return rc;
    ahead->range = *range;
    *ret_arrays = &ahead->arrays;
    return 0;
}

bool ahead_take(struct wk_loader *loader, const struct share_range *range)
{
    for (int i = 0; i < loader->n_ahead; i++) {
        struct loader_ahead *ahead = &loader->ahead[i];
        const struct share_range *has = &ahead->range;
        if (!has->count || has->position != range->position || has->count != range->count ||
            has->length != range->length)
            continue;
        struct loader_arrays arrays = loader->arrays;
        loader->arrays = ahead->arrays;
        ahead->arrays = arrays;
        ahead->range.count = 0;
        return true;
    }
    return false;
}
