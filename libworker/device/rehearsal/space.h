/* The rehearsal device's addresses apart from memory (device/space_ops.h). Here they
 * all have memory. A part may be used between its take and its leave. A leave is work that writes
 * all parts of the slot, with undefined content. So each use of them is ordered before it, or after
 * it. */
#ifndef REHEARSAL_SPACE_H
#define REHEARSAL_SPACE_H

#include "libworker/device/space_ops.h"

extern const struct space_ops rehearsal_spaces;

#endif
