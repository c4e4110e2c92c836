/* Programs with one mistake each, and the same programs without it. */
#ifndef DEVICE_MISTAKES_H
#define DEVICE_MISTAKES_H

#include "libworker/device/device.h"

struct mistake {
    const char *name;
    /* `wrong`: with the mistake. Frees what it makes, except the device. Returns which of two
     * orders has run, 0 or 1, where both may. */
    int (*run)(struct device *device, bool wrong);
    const char *says[3]; /* parts of the first finding, in this order; NULL ends them */
    bool both;           /* with the mistake, some seeds run one order and some the other */
};

/* Of mistakes_slots.c. */
int turn_without_an_event(struct device *device, bool wrong);
int part_left_while_it_is_read(struct device *device, bool wrong);
int part_used_after_its_leave(struct device *device, bool wrong);
int part_used_before_its_take(struct device *device, bool wrong);
int part_not_zeroed(struct device *device, bool wrong);
int part_freed_while_it_is_read(struct device *device, bool wrong);

extern const struct mistake mistakes[]; /* a NULL name ends them */

#endif
