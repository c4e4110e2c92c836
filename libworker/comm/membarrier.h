/* Barriers in the other threads and processes of a host (membarrier(2), 2 us), so that the side in
 * a hurry needs none. Any thread. */
#ifndef COMM_MEMBARRIER_H
#define COMM_MEMBARRIER_H

#include <stdbool.h>

/* Take part; once in a process with communicators. False: unavailable, so every store that others
 * act on needs a fence of its own. */
bool membarrier_register(void);

/* Have every processor that runs a registered process execute a barrier. */
void membarrier_others(void);

#endif
