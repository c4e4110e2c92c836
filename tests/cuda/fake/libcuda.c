/* The CUDA driver as far as cuDNN needs one to make plans without a GPU: kernels are loaded, and
 * never run; there is no device. For cudnn_real.c alone, never for a program: that plans can be
 * made so is not documented. Results are CUresult, and arguments those of cuda.h; callers pass more
 * than the functions here take, which is fine in this ABI. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { SUCCESS, NO_DEVICE = 100, DRIVER = 13000 };

#define SHARED  __attribute__((visibility("default")))
#define CALL(x) (void (*)(void)) x

/* With a result at the first argument. */
#define GIVING(X)                                                                                  \
    X(cuDeviceGetCount, int, 0)                                                                    \
    X(cuDriverGetVersion, int, DRIVER)                                                             \
    X(cuLibraryLoadData, const void *, &here)                                                      \
    X(cuLibraryGetKernel, const void *, &here)                                                     \
    X(cuKernelGetFunction, const void *, &here)                                                    \
    X(cuFuncGetAttribute, int, 0)                                                                  \
    X(cuKernelGetAttribute, int, 0)

#define DOING(X)                                                                                   \
    X(cuInit)                                                                                      \
    X(cuLibraryUnload)                                                                             \
    X(cuFuncSetAttribute)                                                                          \
    X(cuKernelSetAttribute)

/* What cuDNN looks for, and does not call without a device. */
#define ABSENT(X)                                                                                  \
    X(cuCtxGetCurrent)                                                                             \
    X(cuCtxGetLimit)                                                                               \
    X(cuCtxPopCurrent)                                                                             \
    X(cuCtxPushCurrent)                                                                            \
    X(cuDeviceGet)                                                                                 \
    X(cuGetExportTable)                                                                            \
    X(cuGetErrorName)                                                                              \
    X(cuGetErrorString)                                                                            \
    X(cuLaunchCooperativeKernel)                                                                   \
    X(cuLaunchKernel)                                                                              \
    X(cuLaunchKernelEx)                                                                            \
    X(cuLibraryLoadFromFile)                                                                       \
    X(cuLinkAddData)                                                                               \
    X(cuLinkComplete)                                                                              \
    X(cuLinkCreate)                                                                                \
    X(cuLinkDestroy)                                                                               \
    X(cuOccupancyMaxPotentialClusterSize)                                                          \
    X(cuStreamGetCtx)

static int here; /* what libraries and kernels point to */

#define X(name, type, value)                                                                       \
    SHARED int name(type *ret);                                                                    \
    int name(type *ret)                                                                            \
    {                                                                                              \
        *ret = value;                                                                              \
        return SUCCESS;                                                                            \
    }
GIVING(X)
#undef X
#define X(name)                                                                                    \
    SHARED int name(void);                                                                         \
    int name(void)                                                                                 \
    {                                                                                              \
        return SUCCESS;                                                                            \
    }
DOING(X)
#undef X
#define X(name)                                                                                    \
    SHARED int name(void);                                                                         \
    int name(void)                                                                                 \
    {                                                                                              \
        return NO_DEVICE;                                                                          \
    }
ABSENT(X)
#undef X

SHARED int cuGetProcAddress_v2(const char *name, void **ret, int version, uint64_t flags,
                               int *found);

/* The CUDA runtime asks for every function of the driver, and calls few. */
static void (*call_of(const char *name))(void)
{
#define X(known, type, value)                                                                      \
    if (strcmp(name, #known) == 0)                                                                 \
        return CALL(known);
    GIVING(X)
#undef X
#define X(known)                                                                                   \
    if (strcmp(name, #known) == 0)                                                                 \
        return CALL(known);
    DOING(X)
#undef X
    return strcmp(name, "cuGetProcAddress") == 0 ? CALL(cuGetProcAddress_v2) : CALL(cuDeviceGet);
}

int cuGetProcAddress_v2(const char *name, void **ret, int version, uint64_t flags, int *found)
{
    void (*call)(void) = call_of(name);
    (void)version, (void)flags;
    memcpy(ret, &call, sizeof(call));
    if (found)
        *found = SUCCESS;
    return SUCCESS;
}
