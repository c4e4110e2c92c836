/* Addresses apart from memory: the driver's virtual memory management, as the module finds it. A
 * piece is a file in memory, mapped at each of its places. Mapped memory is open while work runs,
 * as all device memory is. What is not mapped, or may not be used yet, faults. */
#ifndef FAKE_SPACE_H
#define FAKE_SPACE_H

#include <stdbool.h>
#include <stddef.h>

enum { FAKE_GRANULE = 64 << 10 }; /* a GPU's is 2 MiB */

void space_protect(int how);
bool space_has(const void *at, size_t bytes); /* they are in one mapped place that may be used */
bool space_is(const void *at);                /* an address of it, mapped or not */
int space_live(void);                         /* pieces, places and reservations */
void space_end(void);

#endif
