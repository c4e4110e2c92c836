#include "libworker/cuda/nccl_memory.h"

#include <stdlib.h>

#include <worker/error.h>

#include "libworker/cuda/nccl_wire.h"

struct nccl_piece {
    struct nccl_piece *next;
    void *at;
};

static struct nccl_piece **piece_at(struct cuda_device *device, const void *at)
{
    struct nccl_piece **piece = &device->nccl_pieces;
    while (*piece && (*piece)->at != at)
        piece = &(*piece)->next;
    return piece;
}

void *nccl_memory_new(struct device *base, size_t bytes)
{
    struct cuda_device *device = cuda_device_of(base);
    struct nccl_api api;
    if (!bytes || !nccl_library_begun(device) || nccl_library_open(device, &api, NULL) ||
        !cuda_enter(device))
        return NULL;
    struct nccl_piece *piece = calloc(1, sizeof(*piece));
    if (!piece)
        return NULL;
    if (api.MemAlloc(&piece->at, bytes) != ncclSuccess || !piece->at) {
        (void)cudaGetLastError(); /* the caller has another way */
        free(piece);
        return NULL;
    }
    piece->next = device->nccl_pieces;
    device->nccl_pieces = piece;
    device->nccl_free = nccl_memory_free;
    return piece->at;
}

bool nccl_memory_shares(const struct device_wire *wire, const void *at)
{
    const struct cuda_device *device = wire->device;
    const struct nccl_piece *piece = device->nccl_pieces;
    while (piece && piece->at != at)
        piece = piece->next;
    return piece && wire->n_enrolled < NCCL_ENROLLED_MAX;
}

static ncclResult_t register_memory(struct device_wire *wire, const struct wire_memory *memory,
                                    struct nccl_enrolled *ret)
{
    const struct nccl_api *api = &wire->api;
    *ret = (struct nccl_enrolled){.at = memory->at, .shared = memory->shared};
    if (memory->shared)
        return api->CommWindowRegister(wire->comm, memory->at, memory->bytes, &ret->window,
                                       NCCL_WIN_COLL_SYMMETRIC);
    return api->CommRegister(wire->comm, memory->at, memory->bytes, &ret->handle);
}

int nccl_memory_enroll(struct device_wire *wire, const struct wire_memory *memory,
                       struct error *err)
{
    if (wire->n_enrolled == NCCL_ENROLLED_MAX || !memory->bytes)
        return 0;
    if (!cuda_enter(wire->device))
        return device_failure(&wire->device->base, err);
    int rc = nccl_wire_lock(wire, err);
    if (rc)
        return rc;
    wire->device->nccl_free = nccl_memory_free;
    struct nccl_enrolled *enrolled = &wire->enrolled[wire->n_enrolled++];
    ncclResult_t result = register_memory(wire, memory, enrolled);
    if (!memory->shared && (result != ncclSuccess || !enrolled->handle))
        wire->n_enrolled--; /* it works without */
    nccl_wire_unlock(wire);
    if (memory->shared && result != ncclSuccess && result != ncclInProgress)
        return nccl_refused(&wire->api, result, NULL, "a window", err);
    return 0;
}

/* Under the lock. */
static void deregister(struct device_wire *wire, const struct nccl_enrolled *enrolled)
{
    if (!enrolled->shared)
        (void)wire->api.CommDeregister(wire->comm, enrolled->handle);
    else if (enrolled->window)
        (void)wire->api.CommWindowDeregister(wire->comm, enrolled->window);
}

void nccl_memory_withdraw(struct device_wire *wire)
{
    for (int i = 0; i < wire->n_enrolled; i++)
        deregister(wire, &wire->enrolled[i]);
    wire->n_enrolled = 0;
}

static int enrolled_at(const struct device_wire *wire, const void *at)
{
    for (int i = 0; i < wire->n_enrolled; i++)
        if (wire->enrolled[i].at == at)
            return i;
    return -1;
}

/* An abort has deregistered all. */
static void withdraw_one(struct device_wire *wire, int i)
{
    if (i < 0 || nccl_wire_lock(wire, NULL))
        return;
    deregister(wire, &wire->enrolled[i]);
    nccl_wire_unlock(wire);
    wire->enrolled[i] = wire->enrolled[--wire->n_enrolled];
}

/* As cudaFree does, it waits for what the device has under way: NCCL's calls do not. */
bool nccl_memory_free(struct cuda_device *device, void *memory)
{
    struct nccl_piece **at = piece_at(device, memory), *piece = *at;
    struct nccl_api api;
    bool enrolled = false;
    for (struct device_wire *wire = device->wires; wire; wire = wire->next)
        enrolled = enrolled || enrolled_at(wire, memory) >= 0;
    if (piece || enrolled)
        (void)cudaDeviceSynchronize();
    for (struct device_wire *wire = device->wires; wire; wire = wire->next)
        withdraw_one(wire, enrolled_at(wire, memory));
    if (!piece || nccl_library_open(device, &api, NULL))
        return false;
    *at = piece->next;
    free(piece);
    (void)api.MemFree(memory);
    return true;
}
