/* What the machine itself can do, with nothing of ours in the way: two processes, a core each.
 *
 *     copy     memcpy of `bytes` on both at once
 *     halves   an all-reduce without a library: each adds its half of two buffers that both have
 *              mapped and writes the sum into both, between two meetings at a pair of flags
 *     alone    the same adding of as many bytes, but in buffers that no other core touches: what
 *              remains above it is the price of sharing
 *     stream   `bytes` each way at once over one loopback connection
 */
#ifndef BENCH_COLLECTIVES_ROOFS_H
#define BENCH_COLLECTIVES_ROOFS_H

#include <stdbool.h>
#include <stddef.h>

/* Is there one of this name? */
bool roof_known(const char *name);

/* Reports a figure per size; the exit status. */
int roof_run(const char *name, const size_t *sizes, int n);

#endif
