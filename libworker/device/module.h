/* The module for GPUs: libworker-cuda.so, opened at run time, so that the same programs run where
 * there is no GPU, no driver and no CUDA. It is searched in this order, and where found it is used
 * or refused:
 *
 *     the path that is given (MUSTER_CUDA_MODULE), if any
 *     beside libworker.so, or beside the program that has libworker in it; there in ../lib
 *     the folder that the package installs libraries in
 *
 * A module is of one build with this libworker, as they share structs. Its one exported symbol has
 * the build, which is read before anything of it runs. It stays open to the process's end. Any
 * thread.
 */
#ifndef DEVICE_MODULE_H
#define DEVICE_MODULE_H

#include "libworker/device/device.h"

#define MODULE_FILE     "libworker-cuda.so"
#define MODULE_SYMBOL   "muster_cuda_module"
#define MODULE_VARIABLE "MUSTER_CUDA_MODULE"

enum { MODULE_BUILD_BYTES = 64, MODULE_ABOUT_BYTES = 768 };

/* What MODULE_SYMBOL is. */
struct module_table {
    char build[MODULE_BUILD_BYTES]; /* version and digest of the shared headers: module_build() */

    /* How many GPUs this process has. WK_EUNSUPPORTED, with the reason, if none: no driver, one
     * that is too old, no GPU. */
    int (*count)(int *ret_count, struct error *err);
    /* GPU `number` of them. WK_EINVAL, WK_EUNSUPPORTED, WK_ENOMEM. */
    int (*device_new)(int number, struct device **ret_device, struct error *err);
    /* For plans of another machine: finds the kernels of a GPU of this architecture (90: sm_90).
     * Without memory and queues. WK_EINVAL, WK_ENOMEM. */
    int (*plan_device_new)(int arch, struct device **ret_device, struct error *err);
    /* The setting `attention` for a device made here: "auto", "own" or "cudnn". Before its use. */
    void (*attention)(struct device *device, const char *setting);
    /* "GPU 0, NVIDIA H200 (sm_90), attention by cuDNN 9.19.0", of a device made here. */
    void (*about)(const struct device *device, char ret[MODULE_ABOUT_BYTES]);
};

/* `path` NULL or "": none is given, and none is searched without an NVIDIA driver
 * (WK_EUNSUPPORTED), unless it is to plan. WK_ENOTFOUND: there is none, with where it was searched.
 * WK_EUNSUPPORTED: it cannot be loaded, as a library that it needs is not here. WK_EMISMATCH: it is
 * of another build, or no module. */
int module_open(const char *path, const struct module_table **ret_table, struct error *err);
int module_open_to_plan(const char *path, const struct module_table **ret_table, struct error *err);

/* Of this libworker. */
const char *module_build(void);

#endif
