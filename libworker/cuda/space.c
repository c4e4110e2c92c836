#include "libworker/cuda/space.h"

#include <cuda.h>
#include <stdlib.h>
#include <string.h>

#include <worker/error.h>

#include "libworker/device/remark.h"

enum { DRIVER_OF_CALLS = 12000 }; /* the CUDA version that has these signatures */

/* The driver's calls, found by name: the module links the runtime alone. */
#define CALLS(X)                                                                                   \
    X(cuDeviceGet)                                                                                 \
    X(cuDeviceGetAttribute)                                                                        \
    X(cuGetErrorName)                                                                              \
    X(cuMemAddressFree)                                                                            \
    X(cuMemAddressReserve)                                                                         \
    X(cuMemCreate)                                                                                 \
    X(cuMemGetAllocationGranularity)                                                               \
    X(cuMemMap)                                                                                    \
    X(cuMemRelease)                                                                                \
    X(cuMemSetAccess)                                                                              \
    X(cuMemUnmap)

struct cuda_space {
#define X(name) __typeof__ (&(name))(name);
    CALLS(X)
#undef X
    size_t granule; /* 0: this GPU cannot */
};

static bool find(const char *name, void *ret, size_t bytes)
{
    enum cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    void *call = NULL;
#if CUDART_VERSION >= 12050
    cudaError_t rc =
        cudaGetDriverEntryPointByVersion(name, &call, DRIVER_OF_CALLS, cudaEnableDefault, &found);
#else
    cudaError_t rc = cudaGetDriverEntryPoint(name, &call, cudaEnableDefault, &found);
#endif
    if (rc != cudaSuccess)
        (void)cudaGetLastError();
    memcpy(ret, &call, bytes);
    return rc == cudaSuccess && found == cudaDriverEntryPointSuccess && call;
}

static CUmemAllocationProp properties_of(const struct cuda_device *device)
{
    return (CUmemAllocationProp){
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device->number}};
}

static size_t find_granule(const struct cuda_device *device, struct cuda_space *space)
{
    const CUmemAllocationProp properties = properties_of(device);
    size_t granule = 0;
    CUdevice driver = 0;
    int can = 0;
    bool found = true;
#define X(name) found = find(#name, &space->name, sizeof(space->name)) && found;
    CALLS(X)
#undef X
    if (!found || space->cuDeviceGet(&driver, device->number) ||
        space->cuDeviceGetAttribute(&can, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                                    driver) ||
        !can ||
        space->cuMemGetAllocationGranularity(&granule, &properties,
                                             CU_MEM_ALLOC_GRANULARITY_RECOMMENDED))
        return 0;
    return granule;
}

static size_t cuda_granule(struct device *base)
{
    struct cuda_device *device = cuda_device_of(base);
    if (!device->space && cuda_enter(device)) {
        device->space = calloc(1, sizeof(*device->space));
        if (device->space)
            device->space->granule = find_granule(device, device->space);
        if (!device->space || !device->space->granule)
            device_remark(base, "memory: this GPU's driver cannot map memory; blocks of fsdp keep "
                                "theirs between their uses");
    }
    return device->space ? device->space->granule : 0;
}

static int failure_or_full(struct device *device)
{
    int rc = device_failure(device, NULL);
    if (!rc)
        rc = WK_ENOMEM;
    return rc;
}

/* Memory that cannot be had is no failure. True: the call did what it should. */
static bool driver_did(struct cuda_device *device, CUresult rc, const char *what)
{
    const char *name = NULL;
    struct queue any = {.device = &device->base};
    if (rc == CUDA_SUCCESS)
        return true;
    if (rc != CUDA_ERROR_OUT_OF_MEMORY) {
        (void)device->space->cuGetErrorName(rc, &name);
        queue_fail(&any, WK_EIO, "%s: the driver says %s", what, name ? name : "nothing");
    }
    return false;
}

static void *cuda_reserve(struct device *base, size_t bytes)
{
    struct cuda_device *device = cuda_device_of(base);
    const struct cuda_space *space = device->space;
    CUdeviceptr at = 0;
    if (!cuda_enter(device) ||
        !driver_did(device, space->cuMemAddressReserve(&at, bytes, space->granule, 0, 0),
                    "reserve addresses"))
        return NULL;
    return (void *)(uintptr_t)at;
}

static void cuda_unreserve(struct device *base, void *at, size_t bytes)
{
    struct cuda_device *device = cuda_device_of(base);
    (void)cudaSetDevice(device->number);
    (void)driver_did(device, device->space->cuMemAddressFree((CUdeviceptr)(uintptr_t)at, bytes),
                     "give addresses back");
}

struct device_piece {
    CUmemGenericAllocationHandle handle;
};

static struct device_piece *cuda_piece_new(struct device *base, size_t bytes)
{
    struct cuda_device *device = cuda_device_of(base);
    const CUmemAllocationProp properties = properties_of(device);
    struct device_piece *piece = cuda_enter(device) ? calloc(1, sizeof(*piece)) : NULL;
    if (piece &&
        driver_did(device, device->space->cuMemCreate(&piece->handle, bytes, &properties, 0),
                   "allocate memory without an address"))
        return piece;
    free(piece);
    return NULL;
}

static void cuda_piece_free(struct device *base, struct device_piece *piece)
{
    struct cuda_device *device = cuda_device_of(base);
    (void)cudaSetDevice(device->number);
    (void)driver_did(device, device->space->cuMemRelease(piece->handle), "free memory");
    free(piece);
}

static int cuda_map(struct device *base, struct device_piece *piece, void *at, size_t bytes)
{
    struct cuda_device *device = cuda_device_of(base);
    const struct cuda_space *space = device->space;
    const CUdeviceptr place = (CUdeviceptr)(uintptr_t)at;
    const CUmemAccessDesc access = {
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device->number},
        .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    if (!cuda_enter(device))
        return device_failure(base, NULL);
    bool mapped =
        driver_did(device, space->cuMemMap(place, bytes, 0, piece->handle, 0), "map memory");
    if (mapped &&
        driver_did(device, space->cuMemSetAccess(place, bytes, &access, 1), "let work use memory"))
        return 0;
    if (mapped)
        (void)space->cuMemUnmap(place, bytes);
    return failure_or_full(base);
}

/* Also of a device that failed. As cudaFree does, it waits for what the device has under way, such
 * as a collective of a pass that was given up. */
static void cuda_unmap(struct device *base, void *at, size_t bytes)
{
    struct cuda_device *device = cuda_device_of(base);
    (void)cudaSetDevice(device->number);
    (void)cudaDeviceSynchronize();
    (void)driver_did(device, device->space->cuMemUnmap((CUdeviceptr)(uintptr_t)at, bytes),
                     "unmap memory");
}

const struct space_ops cuda_spaces = {
    .granule = cuda_granule,
    .reserve = cuda_reserve,
    .unreserve = cuda_unreserve,
    .piece_new = cuda_piece_new,
    .piece_free = cuda_piece_free,
    .map = cuda_map,
    .unmap = cuda_unmap,
};
