/* NCCL's library of a device (nccl_api.h). It has more than 200 MB, which a cold or distant disk
 * delivers late. So a thread opens it beside the program's own start:
 *
 *      begin ──► a thread opens the library, and finds its calls ──┐
 *         └────► the program makes its model, data, connections ───┴► open: waits for the thread
 *
 * Without `begin`, `open` opens the library itself. Either has the same error, each time. Nothing
 * of NCCL runs on the thread but the library's constructors and ncclGetVersion.
 *
 * A program that ends earlier waits for the thread: in device_free, or in exit, where the
 * loader does. A process that was forked meanwhile has no such thread, and no NCCL. It must end by
 * exec or _exit, as POSIX has it: exit would wait for the loader for ever.
 *
 * Owned by the device; one thread.
 */
#ifndef CUDA_NCCL_LIBRARY_H
#define CUDA_NCCL_LIBRARY_H

#include "libworker/cuda/cuda.h"
#include "libworker/cuda/nccl_api.h"

/* Once; later calls change nothing. Without memory or a thread for it, `open` does the work. */
void nccl_library_begin(struct cuda_device *device);

bool nccl_library_begun(const struct cuda_device *device);

/* The library's calls. WK_EUNAVAILABLE: nccl_api_open's, or the process was forked. WK_ENOMEM. */
int nccl_library_open(struct cuda_device *device, struct nccl_api *ret, struct error *err);

#endif
