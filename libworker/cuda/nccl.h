/* Wires of GPUs by NCCL (device/wire_ops.h). Communicators do not block. Each belongs to one
 * generation: it is aborted, or finalized and destroyed, and never shrunk or grown
 * (docs/adr/0016-abort-and-a-new-communicator.md).
 *
 * A lock keeps `ready` and `abort`, which other threads call, out of the device thread's calls. No
 * call under the lock waits for another rank: the device's thread looks at the communicator's state
 * between two short pauses, without it.
 *
 * A CUDA graph that has captured a collective must be destroyed before the abort, which else waits
 * for it.
 */
#ifndef CUDA_NCCL_H
#define CUDA_NCCL_H

#include "libworker/device/wire_ops.h"

extern const struct wire_ops nccl_wires;

#endif
