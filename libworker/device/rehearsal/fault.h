/* The process's SIGSEGV handler while a rehearsal device is open: an access to its memory is
 * reported, and the process then dies of SIGSEGV at that instruction. Other faults go to the
 * handler before. */
#ifndef REHEARSAL_FAULT_H
#define REHEARSAL_FAULT_H

#include "libworker/device/rehearsal/state.h"

/* False if another device is watched. */
bool fault_watch(struct rehearsal *rehearsal);
void fault_unwatch(void);

#endif
