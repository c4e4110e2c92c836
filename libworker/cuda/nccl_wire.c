#include "libworker/cuda/nccl_wire.h"

#include <time.h>

#include <worker/error.h>

/* A death that NCCL notices is one of a peer; other ranks may notice others. */
static int code_of(ncclResult_t result)
{
    return result == ncclRemoteError || result == ncclSystemError ? WK_EPEER : WK_EUNAVAILABLE;
}

int nccl_refused(const struct nccl_api *api, ncclResult_t result, ncclComm_t comm, const char *what,
                 struct error *err)
{
    const char *last = api->GetLastError(comm);
    return error_set(err, code_of(result), "NCCL, %s: %s%s%s", what, api->GetErrorString(result),
                     last && *last ? ": " : "", last ? last : "");
}

int nccl_wire_look(struct device_wire *wire, struct error *err)
{
    ncclResult_t state = ncclSuccess;
    if (wire->aborted)
        return error_set(err, WK_EABORT, "the GPUs' collectives were aborted");
    ncclResult_t result = wire->api.CommGetAsyncError(wire->comm, &state);
    if (result != ncclSuccess)
        state = result;
    if (state == ncclInProgress)
        return WIRE_PENDING;
    return state == ncclSuccess ? 0
                                : nccl_refused(&wire->api, state, wire->comm, "a collective", err);
}

int nccl_wire_lock(struct device_wire *wire, struct error *err)
{
    const struct timespec pause = {.tv_nsec = NCCL_PAUSE_NS};
    pthread_mutex_lock(&wire->lock);
    int rc = nccl_wire_look(wire, err);
    while (rc == WIRE_PENDING) {
        pthread_mutex_unlock(&wire->lock);
        (void)nanosleep(&pause, NULL);
        pthread_mutex_lock(&wire->lock);
        rc = nccl_wire_look(wire, err);
    }
    if (rc)
        pthread_mutex_unlock(&wire->lock);
    return rc;
}

void nccl_wire_unlock(struct device_wire *wire)
{
    pthread_mutex_unlock(&wire->lock);
}
