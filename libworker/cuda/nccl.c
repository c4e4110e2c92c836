#include "libworker/cuda/nccl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <worker/error.h>

#include "libworker/cuda/nccl_memory.h"
#include "libworker/cuda/nccl_wire.h"

_Static_assert(WIRE_ID_BYTES == NCCL_UNIQUE_ID_BYTES, "an id is NCCL's");

enum { CLOSE_MS = 10000 }; /* for all ranks to close; then this one aborts */

static void prepare_nccl(struct device *device)
{
    nccl_library_begin(cuda_device_of(device));
}

static int find_nccl(struct device *device, char ret_version[WIRE_VERSION_BYTES], struct error *err)
{
    struct nccl_api api;
    int rc = nccl_library_open(cuda_device_of(device), &api, err);
    if (!rc)
        (void)snprintf(ret_version, WIRE_VERSION_BYTES, "nccl %d", api.version);
    return rc;
}

static int new_id(struct device *device, unsigned char ret_id[WIRE_ID_BYTES], struct error *err)
{
    struct nccl_api api;
    ncclUniqueId id;
    int rc = nccl_library_open(cuda_device_of(device), &api, err);
    if (rc)
        return rc;
    ncclResult_t result = api.GetUniqueId(&id);
    if (result != ncclSuccess)
        return nccl_refused(&api, result, NULL, "an id", err);
    memcpy(ret_id, id.internal, WIRE_ID_BYTES);
    return 0;
}

static int begin_to_connect(struct device_wire *wire, const struct wire_place *place,
                            struct error *err)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId id;
    config.blocking = 0;
    memcpy(id.internal, place->id, WIRE_ID_BYTES);
    if (!cuda_enter(wire->device))
        return device_failure(&wire->device->base, err);
    ncclResult_t result =
        wire->api.CommInitRankConfig(&wire->comm, place->world, id, place->rank, &config);
    if (result == ncclSuccess || result == ncclInProgress)
        return 0;
    return nccl_refused(&wire->api, result, NULL, "a communicator", err);
}

static int open_wire(struct device *device, const struct wire_place *place,
                     struct device_wire **ret, struct error *err)
{
    struct device_wire *wire = calloc(1, sizeof(*wire));
    if (!wire)
        return error_set(err, WK_ENOMEM, "no memory for a communicator of GPUs");
    wire->device = cuda_device_of(device);
    int rc = nccl_library_open(wire->device, &wire->api, err);
    if (!rc)
        rc = begin_to_connect(wire, place, err);
    if (rc) {
        free(wire);
        return rc;
    }
    (void)pthread_mutex_init(&wire->lock, NULL);
    wire->next = wire->device->wires;
    wire->device->wires = wire;
    *ret = wire;
    return 0;
}

/* Never waits for a call that is under way. */
static int wire_ready(struct device_wire *wire, struct error *err)
{
    if (pthread_mutex_trylock(&wire->lock))
        return WIRE_PENDING;
    int rc = nccl_wire_look(wire, err);
    pthread_mutex_unlock(&wire->lock);
    return rc;
}

static ncclDataType_t type_of(enum wk_dtype type)
{
    switch (type) {
    case WK_F32:
        return ncclFloat32;
    case WK_F64:
        return ncclFloat64;
    case WK_F16:
        return ncclFloat16;
    case WK_BF16:
        return ncclBfloat16;
    case WK_I32:
        return ncclInt32;
    case WK_I64:
        return ncclInt64;
    case WK_U8:
    case WK_BOOL:
        return ncclUint8;
    }
    return ncclUint8;
}

static ncclResult_t call_nccl(const struct device_wire *wire, cudaStream_t stream,
                              const struct wire_message *m)
{
    const struct nccl_api *api = &wire->api;
    ncclDataType_t type = type_of(m->type);
    switch (m->op) {
    case WIRE_SUM:
        return api->AllReduce(m->in, m->out, m->count, type, ncclSum, wire->comm, stream);
    case WIRE_SCATTER:
        return api->ReduceScatter(m->in, m->out, m->count, type, ncclSum, wire->comm, stream);
    case WIRE_GATHER:
        return api->AllGather(m->in, m->out, m->count, type, wire->comm, stream);
    case WIRE_EXCHANGE:
        return api->AlltoAll(m->in, m->out, m->count, type, wire->comm, stream);
    case WIRE_SPREAD:
        return api->Broadcast(m->in, m->out, m->count, type, m->root, wire->comm, stream);
    }
    return ncclInvalidArgument;
}

/* What depends on the collective is enqueued once NCCL has enqueued it. */
static int enqueue_message(struct device_wire *wire, struct queue *queue,
                           const struct wire_message *message, struct error *err)
{
    if (!cuda_enter(wire->device))
        return device_failure(&wire->device->base, err);
    int rc = nccl_wire_lock(wire, err);
    if (rc)
        return rc;
    ncclResult_t result = call_nccl(wire, cuda_queue_of(queue)->stream, message);
    if (result != ncclSuccess && result != ncclInProgress)
        rc = nccl_refused(&wire->api, result, wire->comm, "a collective", err);
    nccl_wire_unlock(wire);
    if (!rc && result == ncclInProgress) {
        rc = nccl_wire_lock(wire, err);
        if (!rc)
            nccl_wire_unlock(wire);
    }
    return rc;
}

/* In the order of their addresses, so that two threads that abort never wait for each other. */
static void lock_all(struct device_wire *const *wires, int n)
{
    uintptr_t last = 0;
    for (int i = 0; i < n; i++) {
        struct device_wire *next = NULL;
        for (int j = 0; j < n; j++)
            if ((uintptr_t)wires[j] > last && (!next || (uintptr_t)wires[j] < (uintptr_t)next))
                next = wires[j];
        pthread_mutex_lock(&next->lock);
        last = (uintptr_t)next;
    }
}

/* As a group: one after the other the ranks would wait for each other in turns. */
static void abort_wires(struct device_wire *const *wires, int n)
{
    const struct nccl_api *api = &wires[0]->api;
    lock_all(wires, n);
    (void)api->GroupStart();
    for (int i = 0; i < n; i++) {
        if (!wires[i]->aborted)
            (void)api->CommAbort(wires[i]->comm);
        wires[i]->aborted = true;
        wires[i]->comm = NULL;
    }
    (void)api->GroupEnd();
    for (int i = 0; i < n; i++)
        pthread_mutex_unlock(&wires[i]->lock);
}

static int64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* All ranks' collectives have ended, and all ranks say so. */
static int finalize_comm(struct device_wire *wire)
{
    const struct timespec pause = {.tv_nsec = NCCL_PAUSE_NS};
    int64_t until_ms = now_ms() + CLOSE_MS;
    ncclResult_t result = wire->api.CommFinalize(wire->comm);
    int rc =
        result == ncclSuccess || result == ncclInProgress ? nccl_wire_look(wire, NULL) : WK_EIO;
    while (rc == WIRE_PENDING && now_ms() < until_ms) {
        (void)nanosleep(&pause, NULL);
        rc = nccl_wire_look(wire, NULL);
    }
    return rc;
}

static void close_working(struct device_wire *wire)
{
    if (nccl_wire_look(wire, NULL) < 0) { /* it failed: what it has under way never ends */
        (void)wire->api.CommAbort(wire->comm);
        return;
    }
    nccl_memory_withdraw(wire);
    if (finalize_comm(wire))
        (void)wire->api.CommAbort(wire->comm);
    else
        (void)wire->api.CommDestroy(wire->comm);
}

static void close_wire(struct device_wire *wire)
{
    struct device_wire **at = &wire->device->wires;
    if (!wire->aborted)
        close_working(wire);
    while (*at != wire)
        at = &(*at)->next;
    *at = wire->next;
    (void)pthread_mutex_destroy(&wire->lock);
    free(wire);
}

const struct wire_ops nccl_wires = {
    .name = "nccl",
    .prepare = prepare_nccl,
    .find = find_nccl,
    .id = new_id,
    .open = open_wire,
    .ready = wire_ready,
    .enqueue = enqueue_message,
    .memory_new = nccl_memory_new,
    .shares = nccl_memory_shares,
    .enroll = nccl_memory_enroll,
    .abort = abort_wires,
    .close = close_wire,
};
