/* Memory of the fake NCCL, and its registration. */
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/fake_nccl_inside.h"

enum { ALIGN = NCCL_WIN_REQUIRED_ALIGNMENT, PIECES_MAX = 256 };

/* After the begin of what the runtime has allocated: so it finds a cudaFree of it. */
enum { AFTER = 4096 };

struct piece {
    char *at; /* NULL: freed */
    size_t bytes;
};

static struct piece pieces[PIECES_MAX];
static int n_pieces;

static struct piece *piece_at(const void *at, size_t bytes)
{
    for (int i = 0; i < n_pieces; i++)
        if (pieces[i].at && (const char *)at >= pieces[i].at &&
            (const char *)at + bytes <= pieces[i].at + pieces[i].bytes)
            return &pieces[i];
    return NULL;
}

ncclResult_t ncclMemAlloc(void **ret, size_t bytes)
{
    char *real = NULL;
    if (fake_nccl_streams.memory_new && !getenv("FAKE_NCCL_SCARCE"))
        real = fake_nccl_streams.memory_new(bytes + AFTER);
    if (!real)
        return ncclUnhandledCudaError;
    if (n_pieces == PIECES_MAX)
        fake_nccl_broken("too many allocations");
    pieces[n_pieces++] = (struct piece){real + AFTER, bytes};
    *ret = real + AFTER;
    return ncclSuccess;
}

static bool has_enrolled(const struct ncclComm *comm, const struct piece *piece)
{
    for (int i = 0; i < comm->n_enrolled; i++)
        if (comm->enrolled[i].at && piece_at(comm->enrolled[i].at, 0) == piece)
            return true;
    return false;
}

ncclResult_t ncclMemFree(void *memory)
{
    struct piece *piece = piece_at(memory, 0);
    if (!piece || piece->at != memory)
        fake_nccl_broken("ncclMemFree of memory that is not ncclMemAlloc's");
    pthread_mutex_lock(&fake_nccl_lock);
    for (const struct ncclComm *comm = fake_nccl_comms; comm; comm = comm->next)
        if (has_enrolled(comm, piece))
            fake_nccl_broken("memory is freed while it is registered");
    pthread_mutex_unlock(&fake_nccl_lock);
    piece->at = NULL;
    fake_nccl_streams.memory_free((char *)memory - AFTER);
    return ncclSuccess;
}

static struct fake_nccl_enrolled *enroll(ncclComm_t comm, void *at, size_t bytes)
{
    if (comm->n_enrolled == FAKE_NCCL_ENROLLED_MAX)
        fake_nccl_broken("too many registrations");
    struct fake_nccl_enrolled *enrolled = &comm->enrolled[comm->n_enrolled++];
    *enrolled = (struct fake_nccl_enrolled){.at = at, .bytes = bytes};
    return enrolled;
}

ncclResult_t ncclCommRegister(const ncclComm_t comm, void *at, size_t bytes, void **ret_handle)
{
    fake_nccl_enter(comm);
    fake_nccl_ready(comm);
    *ret_handle = enroll(comm, at, bytes);
    return fake_nccl_leave(ncclSuccess);
}

static void withdraw(ncclComm_t comm, const void *handle, bool is_window)
{
    struct fake_nccl_enrolled *enrolled = (struct fake_nccl_enrolled *)(uintptr_t)handle;
    if (enrolled < comm->enrolled || enrolled >= comm->enrolled + comm->n_enrolled ||
        !enrolled->at || enrolled->is_window != is_window)
        fake_nccl_broken("memory that was not registered");
    if (atomic_load(&comm->running))
        fake_nccl_broken("memory is deregistered while collectives run");
    enrolled->at = NULL;
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *handle)
{
    fake_nccl_enter(comm);
    withdraw(comm, handle, false);
    return fake_nccl_leave(ncclSuccess);
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window)
{
    fake_nccl_enter(comm);
    withdraw(comm, window, true);
    return fake_nccl_leave(ncclSuccess);
}

/* As a collective: all ranks do so at the same place among their calls. */
ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *at, size_t bytes, ncclWindow_t *ret,
                                    int flags)
{
    const struct piece *piece = piece_at(at, bytes);
    int64_t size = (int64_t)bytes;
    fake_nccl_enter(comm);
    fake_nccl_ready(comm);
    if (flags != NCCL_WIN_COLL_SYMMETRIC || !piece || ((char *)at - piece->at) % ALIGN)
        fake_nccl_broken("a window of memory that is not ncclMemAlloc's, or not aligned");
    if (fake_nccl_place(comm, at, 1))
        fake_nccl_broken("memory is registered twice");
    comm->pending = (struct exchange_call){comm->calls++, EXCHANGE_GATHER, 1, WK_I64, 0, comm->rank,
                                           comm->world,   (uint64_t)size};
    comm->failed = getenv("FAKE_NCCL_NO_WINDOWS") != NULL; /* as a driver that cannot map it */
    comm->pending_ret = ret;
    struct fake_nccl_enrolled *enrolled = enroll(comm, at, bytes);
    enrolled->is_window = true;
    enrolled->number = ++comm->n_windows;
    if (!comm->failed) /* the others then wait for this rank */
        exchange_publish(comm->ex, &comm->pending, &size);
    atomic_store(&comm->polls, 1);
    return fake_nccl_leave(ncclInProgress);
}

bool fake_nccl_window_waits(ncclComm_t comm)
{
    if (!comm->pending_ret)
        return false;
    if (!exchange_there(comm->ex, &comm->pending))
        return true;
    *comm->pending_ret = (ncclWindow_t)(void *)&comm->enrolled[comm->n_enrolled - 1];
    comm->pending_ret = NULL;
    return false;
}

uint64_t fake_nccl_place(ncclComm_t comm, const void *at, size_t bytes)
{
    enum { OFFSET_BITS = 40 };
    const char *first = at;
    for (int i = 0; i < comm->n_enrolled; i++) {
        const struct fake_nccl_enrolled *e = &comm->enrolled[i];
        if (e->at && e->is_window && first >= e->at && first + bytes <= e->at + e->bytes)
            return ((uint64_t)e->number << OFFSET_BITS) + (uint64_t)(first - e->at);
    }
    return 0;
}
