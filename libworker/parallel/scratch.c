#include "libworker/parallel/scratch.h"

#include <stdlib.h>

#include <worker/error.h>

#include "libworker/device/device.h"

struct scratch {
    void *at;
    size_t bytes;
    struct scratch *smaller;
};

int scratch_reserve(struct device *device, struct scratch **list, size_t bytes, void **ret,
                    struct error *err)
{
    if (!*list || (*list)->bytes < bytes) {
        struct scratch *scratch = calloc(1, sizeof(*scratch));
        if (!scratch)
            return error_set(err, WK_ENOMEM, "no memory for the rows of other ranks");
        int rc = device_memory_new(device, bytes, &scratch->at, err);
        if (rc) {
            free(scratch);
            return rc;
        }
        scratch->bytes = bytes;
        scratch->smaller = *list;
        *list = scratch;
    }
    *ret = (*list)->at;
    return 0;
}

void scratch_free(struct device *device, struct scratch **list)
{
    while (*list) {
        struct scratch *scratch = *list;
        *list = scratch->smaller;
        device_memory_free(device, scratch->at, scratch->bytes);
        free(scratch);
    }
}
