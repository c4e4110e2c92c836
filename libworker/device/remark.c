#include "libworker/device/remark.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/str.h"
#include "libworker/device/device_ops.h"

struct remarks {
    void (*call)(void *arg, const char *text);
    void *arg;
    int n;
    char list[REMARKS_MAX][REMARK_BYTES];
};

/* NULL without memory. */
static struct remarks *remarks_of(struct device *device)
{
    if (!device->remarks)
        device->remarks = calloc(1, sizeof(*device->remarks));
    return device->remarks;
}

void device_listen(struct device *device, void (*call)(void *arg, const char *text), void *arg)
{
    struct remarks *remarks = remarks_of(device);
    if (!remarks)
        return;
    remarks->call = call;
    remarks->arg = arg;
}

void device_remark(struct device *device, const char *text)
{
    struct remarks *remarks = remarks_of(device);
    char cut[REMARK_BYTES];
    (void)str_copy(cut, sizeof(cut), text);
    for (int i = 0; remarks && i < remarks->n; i++) {
        if (!strcmp(remarks->list[i], cut))
            return;
    }
    if (!remarks || remarks->n == REMARKS_MAX)
        return;
    memcpy(remarks->list[remarks->n++], cut, sizeof(cut));
    if (remarks->call)
        remarks->call(remarks->arg, cut);
}

const char *device_remark_at(const struct device *device, int i)
{
    return device->remarks && i < device->remarks->n ? device->remarks->list[i] : NULL;
}
