#include "tests/cuda/fake/space.h"

#include <cuda.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/assert.h"
#include "tests/cuda/fake/capture.h"

#define RANGE_BYTES ((size_t)256 << 30)
enum { PLACES_MAX = 4096, RESERVED_MAX = 1024 };

struct piece {
    int file, device, places;
    size_t bytes;
    bool released; /* by its owner: it goes with its last place */
};

struct place {
    char *at;
    size_t bytes;
    struct piece *piece;
    bool usable;
};

struct reserved {
    char *at;
    size_t bytes;
};

static char *begin;
static size_t used;
static struct place places[PLACES_MAX];
static struct reserved reserved[RESERVED_MAX];
static int n_places, n_reserved, n_pieces;

static bool is_whole(size_t value)
{
    return value && value % FAKE_GRANULE == 0;
}

static char *address(CUdeviceptr at)
{
    char *ret = NULL;
    memcpy(&ret, &at, sizeof(ret));
    return ret;
}

void space_protect(int how)
{
    for (int i = 0; i < n_places; i++)
        if (places[i].usable)
            insist(mprotect(places[i].at, places[i].bytes, how) == 0);
}

bool space_has(const void *at, size_t bytes)
{
    const char *first = at;
    bool has = false;
    for (int i = 0; i < n_places; i++)
        has = has || (places[i].usable && first >= places[i].at &&
                      first + bytes <= places[i].at + places[i].bytes);
    return has;
}

bool space_is(const void *at)
{
    const char *here = at;
    return begin && here >= begin && here < begin + used;
}

int space_live(void)
{
    return n_pieces + n_places + n_reserved;
}

void space_end(void)
{
    used = 0;
}

static CUresult fake_get(CUdevice *ret, int number)
{
    *ret = number;
    return number < fake.options.devices ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

static CUresult fake_attribute(int *ret, CUdevice_attribute attribute, CUdevice device)
{
    (void)device;
    *ret = attribute == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED &&
           !fake.options.unmapped;
    return CUDA_SUCCESS;
}

static CUresult fake_error_name(CUresult rc, const char **ret)
{
    *ret = rc == CUDA_ERROR_OUT_OF_MEMORY    ? "CUDA_ERROR_OUT_OF_MEMORY"
           : rc == CUDA_ERROR_INVALID_VALUE  ? "CUDA_ERROR_INVALID_VALUE"
           : rc == CUDA_ERROR_INVALID_DEVICE ? "CUDA_ERROR_INVALID_DEVICE"
                                             : "CUDA_ERROR_UNKNOWN";
    return CUDA_SUCCESS;
}

/* What every call but those begins with. */
static CUresult enter(void)
{
    if (fake_enter())
        return CUDA_ERROR_UNKNOWN;
    if (capture_forbids(NULL))
        fake_found("memory is mapped or unmapped while a stream is captured");
    return CUDA_SUCCESS;
}

static CUresult fake_granularity(size_t *ret, const CUmemAllocationProp *properties,
                                 CUmemAllocationGranularity_flags option)
{
    (void)option;
    *ret = FAKE_GRANULE;
    return properties->type == CU_MEM_ALLOCATION_TYPE_PINNED ? CUDA_SUCCESS
                                                             : CUDA_ERROR_INVALID_VALUE;
}

static CUresult fake_reserve(CUdeviceptr *ret, size_t bytes, size_t align, CUdeviceptr hint,
                             unsigned long long flags)
{
    CUresult rc = enter();
    if (rc || !is_whole(bytes) || align > FAKE_GRANULE || hint || flags)
        return rc ? rc : CUDA_ERROR_INVALID_VALUE;
    if (!begin) {
        char *all = mmap(NULL, RANGE_BYTES + FAKE_GRANULE, PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        insist(all != MAP_FAILED);
        begin = all + (FAKE_GRANULE - (uintptr_t)all % FAKE_GRANULE) % FAKE_GRANULE;
    }
    if (n_reserved == RESERVED_MAX || bytes > RANGE_BYTES - FAKE_GRANULE - used)
        return CUDA_ERROR_OUT_OF_MEMORY;
    char *at = begin + used;
    reserved[n_reserved++] = (struct reserved){at, bytes};
    used += bytes + FAKE_GRANULE; /* a gap */
    memcpy(ret, &at, sizeof(*ret));
    return CUDA_SUCCESS;
}

static CUresult fake_unreserve(CUdeviceptr at, size_t bytes)
{
    char *here = address(at);
    for (int i = 0; i < n_places; i++)
        if (places[i].at >= here && places[i].at < here + bytes)
            fake_found("addresses are given back while memory is mapped at %p", places[i].at);
    for (int i = 0; i < n_reserved; i++)
        if (reserved[i].at == here && reserved[i].bytes == bytes) {
            reserved[i] = reserved[--n_reserved];
            return CUDA_SUCCESS;
        }
    fake_found("%zu addresses from %p are given back, which were not reserved so", bytes, here);
}

static CUresult fake_create(CUmemGenericAllocationHandle *ret, size_t bytes,
                            const CUmemAllocationProp *properties, unsigned long long flags)
{
    CUresult rc = enter();
    if (rc || !is_whole(bytes) || flags || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
        properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        properties->location.id >= fake.options.devices)
        return rc ? rc : CUDA_ERROR_INVALID_VALUE;
    if (!fake_memory_count(properties->location.id, bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct piece *piece = calloc(1, sizeof(*piece));
    insist(piece);
    *piece = (struct piece){.file = memfd_create("piece", MFD_CLOEXEC),
                            .device = properties->location.id,
                            .bytes = bytes};
    insist(piece->file >= 0 && ftruncate(piece->file, (off_t)bytes) == 0);
    char *view = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, piece->file, 0);
    insist(view != MAP_FAILED);
    memset(view, 0xff, bytes);
    (void)munmap(view, bytes);
    n_pieces++;
    memcpy(ret, &piece, sizeof(*ret));
    return CUDA_SUCCESS;
}

static void drop_unused(struct piece *piece)
{
    if (!piece->released || piece->places)
        return;
    fake_memory_uncount(piece->device, piece->bytes);
    (void)close(piece->file);
    free(piece);
    n_pieces--;
}

static struct piece *piece_of(CUmemGenericAllocationHandle handle)
{
    struct piece *piece = NULL;
    memcpy(&piece, &handle, sizeof(piece));
    return piece;
}

static CUresult fake_release(CUmemGenericAllocationHandle handle)
{
    struct piece *piece = piece_of(handle);
    if (piece->released)
        fake_found("memory is released twice");
    piece->released = true;
    drop_unused(piece);
    return CUDA_SUCCESS;
}

static CUresult fake_map(CUdeviceptr at, size_t bytes, size_t offset,
                         CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    CUresult rc = enter();
    struct piece *piece = piece_of(handle);
    char *here = address(at);
    bool inside = false;
    for (int i = 0; i < n_reserved; i++)
        inside = inside ||
                 (here >= reserved[i].at && here + bytes <= reserved[i].at + reserved[i].bytes);
    for (int i = 0; i < n_places; i++)
        inside = inside && (here + bytes <= places[i].at || here >= places[i].at + places[i].bytes);
    if (rc || !inside || offset || flags || !is_whole(bytes) || bytes > piece->bytes ||
        (uintptr_t)here % FAKE_GRANULE)
        return rc ? rc : CUDA_ERROR_INVALID_VALUE;
    insist(n_places < PLACES_MAX);
    insist(mmap(here, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, piece->file, 0) == here);
    places[n_places++] = (struct place){here, bytes, piece, false};
    piece->places++;
    return CUDA_SUCCESS;
}

static CUresult fake_access(CUdeviceptr at, size_t bytes, const CUmemAccessDesc *access, size_t n)
{
    CUresult rc = enter();
    for (int i = 0; i < n_places && !rc; i++)
        if (places[i].at == address(at) && places[i].bytes == bytes && n == 1 &&
            access->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
            places[i].usable = true;
            return CUDA_SUCCESS;
        }
    return rc ? rc : CUDA_ERROR_INVALID_VALUE;
}

/* Work that is enqueued and uses the place faults when it runs. */
static CUresult fake_unmap(CUdeviceptr at, size_t bytes)
{
    char *here = address(at);
    for (int i = 0; i < n_places; i++) {
        struct piece *piece = places[i].piece;
        if (places[i].at != here || places[i].bytes != bytes)
            continue;
        insist(mmap(here, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
                    -1, 0) == here);
        places[i] = places[--n_places];
        piece->places--;
        drop_unused(piece);
        return CUDA_SUCCESS;
    }
    fake_found("%zu bytes at %p are unmapped, which were not mapped so", bytes, here);
}

#define CALLS(X)                                                                                   \
    X(cuDeviceGet, fake_get)                                                                       \
    X(cuDeviceGetAttribute, fake_attribute)                                                        \
    X(cuGetErrorName, fake_error_name)                                                             \
    X(cuMemAddressFree, fake_unreserve)                                                            \
    X(cuMemAddressReserve, fake_reserve)                                                           \
    X(cuMemCreate, fake_create)                                                                    \
    X(cuMemGetAllocationGranularity, fake_granularity)                                             \
    X(cuMemMap, fake_map)                                                                          \
    X(cuMemRelease, fake_release)                                                                  \
    X(cuMemSetAccess, fake_access)                                                                 \
    X(cuMemUnmap, fake_unmap)

cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **ret, unsigned version,
                                             unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *found)
{
    cudaError_t rc = fake_enter();
    (void)version, (void)flags;
    *found = cudaDriverEntryPointSymbolNotFound;
#define X(known, call)                                                                             \
    if (!rc && strcmp(name, #known) == 0) {                                                        \
        __typeof__(&(known)) own = call;                                                           \
        memcpy(ret, &own, sizeof(*ret));                                                           \
        *found = cudaDriverEntryPointSuccess;                                                      \
    }
    CALLS(X)
#undef X
    return fake_error(rc);
}
