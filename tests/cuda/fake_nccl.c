#include "tests/cuda/fake_nccl.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <nccl.h>

#include "tests/lib/exchange.h"

enum {
    MAGIC = 0x6e63636c,
    INIT_POLLS = 4, /* for which something new is in progress */
    CALL_POLLS = 2,
    PATH = NCCL_UNIQUE_ID_BYTES,
};

struct ncclComm {
    int magic;
    struct exchange *ex;
    int rank, world;
    uint64_t calls;
    _Atomic int polls; /* left */
    bool initialized, finalized;
    _Atomic int stopped;
};

/* The process's. */
static struct fake_nccl_streams streams;
static char folder[PATH / 2];
static _Atomic int ids, graphs, live, inside, has_thread;
static pthread_t thread;
static _Thread_local int depth; /* of groups */

static _Noreturn void broken(const char *rule)
{
    (void)fprintf(stderr, "fake NCCL: %s\n", rule);
    abort();
}

static void pause_us(long us)
{
    const struct timespec pause = {.tv_nsec = us * 1000};
    (void)nanosleep(&pause, NULL);
}

/* A library is no part of the program: it finds its own. */
__attribute__((visibility("default"))) void fake_nccl_begin(const struct fake_nccl_streams *given,
                                                            const char *where)
{
    streams = *given;
    if (snprintf(folder, sizeof(folder), "%s", where) >= (int)sizeof(folder))
        broken("the folder's name is too long for an id");
}

__attribute__((visibility("default"))) void fake_nccl_graphs(int change)
{
    (void)atomic_fetch_add(&graphs, change);
}

static void check_alive(ncclComm_t comm)
{
    if (!comm || comm->magic != MAGIC)
        broken("a call of a communicator that was destroyed or aborted");
}

/* Calls but CommGetAsyncError and CommAbort are of one thread. */
static void enter(ncclComm_t comm)
{
    check_alive(comm);
    if (!atomic_exchange(&has_thread, 1))
        thread = pthread_self();
    if (!pthread_equal(thread, pthread_self()))
        broken("calls of two threads");
    if (atomic_fetch_add(&inside, 1))
        broken("two calls at a time");
}

static ncclResult_t leave(ncclResult_t result)
{
    (void)atomic_fetch_sub(&inside, 1);
    return result;
}

ncclResult_t ncclGetVersion(int *version)
{
    const char *older = getenv("FAKE_NCCL_VERSION");
    *version = older ? atoi(older) : NCCL_VERSION_CODE;
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result)
{
    return result == ncclInvalidUsage ? "invalid usage" : "an error";
}

const char *ncclGetLastError(ncclComm_t comm)
{
    (void)comm;
    return "";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    memset(id, 0, sizeof(*id));
    (void)snprintf(id->internal, sizeof(id->internal), "%s/nccl-%d-%d", folder, (int)getpid(),
                   atomic_fetch_add(&ids, 1));
    return ncclSuccess;
}

static struct exchange *map(const ncclUniqueId *id)
{
    int fd = open(id->internal, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    void *at = MAP_FAILED;
    if (fd >= 0 && ftruncate(fd, (off_t)exchange_bytes()) == 0)
        at =
            mmap(NULL, exchange_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (fd >= 0)
        (void)close(fd);
    return at == MAP_FAILED ? NULL : at;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *ret, int world, ncclUniqueId id, int rank,
                                    ncclConfig_t *config)
{
    struct ncclComm *comm = calloc(1, sizeof(*comm));
    if (!comm || !config || config->blocking != 0)
        broken("a communicator that blocks");
    comm->magic = MAGIC;
    comm->ex = map(&id);
    comm->rank = rank;
    comm->world = world;
    if (!comm->ex)
        return ncclSystemError;
    enter(comm);
    exchange_join(comm->ex, rank, streams.device());
    atomic_store(&comm->polls, INIT_POLLS);
    (void)atomic_fetch_add(&live, 1);
    *ret = comm;
    return leave(ncclInProgress);
}

static ncclResult_t state_of(ncclComm_t comm)
{
    if (atomic_load(&comm->polls) > 0 && atomic_fetch_sub(&comm->polls, 1) > 0)
        return ncclInProgress;
    if (!comm->initialized && !exchange_joined(comm->ex, comm->world))
        return ncclInProgress;
    comm->initialized = true;
    if (exchange_twin(comm->ex, comm->rank, comm->world) >= 0)
        return ncclInvalidUsage;
    return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *ret_state)
{
    check_alive(comm);
    *ret_state = state_of(comm);
    return ncclSuccess;
}

static void check_ready(ncclComm_t comm)
{
    if (atomic_load(&comm->polls) > 0 || !comm->initialized)
        broken("a call while an earlier one is in progress");
    if (comm->finalized)
        broken("a collective of a communicator that was finalized");
}

struct part {
    struct ncclComm *comm;
    struct exchange_call call;
    const void *in;
    void *out;
};

static void run_publish(void *arg)
{
    const struct part *part = arg;
    exchange_publish(part->comm->ex, &part->call, part->in);
}

/* Silent until all parts are there, or the communicator is aborted. */
static void run_receive(void *arg)
{
    const struct part *part = arg;
    (void)exchange_result(part->comm->ex, &part->call, part->out, &part->comm->stopped);
}

static enum wk_dtype type_of(ncclDataType_t type)
{
    static const enum wk_dtype types[] = {
        [ncclInt8] = WK_U8,      [ncclUint8] = WK_U8,    [ncclInt32] = WK_I32,
        [ncclUint32] = WK_I32,   [ncclInt64] = WK_I64,   [ncclUint64] = WK_I64,
        [ncclFloat16] = WK_F16,  [ncclFloat32] = WK_F32, [ncclFloat64] = WK_F64,
        [ncclBfloat16] = WK_BF16};
    if (type > ncclBfloat16)
        broken("an element type that the fake does not know");
    return types[type];
}

static ncclResult_t collective(const struct part *given, cudaStream_t stream)
{
    struct part *part = malloc(sizeof(*part));
    if (!part)
        return ncclSystemError;
    *part = *given;
    struct ncclComm *comm = part->comm;
    enter(comm);
    check_ready(comm);
    if (depth)
        broken("a collective in a group");
    part->call.number = comm->calls++;
    part->call.rank = comm->rank;
    part->call.world = comm->world;
    size_t size = wk_dtype_bytes(part->call.type);
    streams.enqueue(stream, &(struct fake_nccl_work){.name = "publish a message",
                                                     .run = run_publish,
                                                     .arg = part,
                                                     .in = part->in,
                                                     .in_bytes = exchange_in(&part->call) * size});
    streams.enqueue(stream,
                    &(struct fake_nccl_work){.name = "receive a message",
                                             .run = run_receive,
                                             .arg = part,
                                             .out = part->out,
                                             .out_bytes = exchange_out(&part->call) * size});
    atomic_store(&comm->polls, CALL_POLLS);
    return leave(ncclInProgress);
}

#define PART(kind, root)                                                                           \
    &(struct part)                                                                                 \
    {                                                                                              \
        comm, {0, kind, count, type_of(type), root, 0, 0}, in, out                                 \
    }

ncclResult_t ncclAllReduce(const void *in, void *out, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    if (op != ncclSum)
        broken("a reduction that is no sum");
    return collective(PART(EXCHANGE_SUM, 0), stream);
}

ncclResult_t ncclReduceScatter(const void *in, void *out, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    if (op != ncclSum)
        broken("a reduction that is no sum");
    return collective(PART(EXCHANGE_SCATTER, 0), stream);
}

ncclResult_t ncclAllGather(const void *in, void *out, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream)
{
    return collective(PART(EXCHANGE_GATHER, 0), stream);
}

ncclResult_t ncclAlltoAll(const void *in, void *out, size_t count, ncclDataType_t type,
                          ncclComm_t comm, cudaStream_t stream)
{
    return collective(PART(EXCHANGE_ALL, 0), stream);
}

ncclResult_t ncclBroadcast(const void *in, void *out, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream)
{
    return collective(PART(EXCHANGE_SPREAD, root), stream);
}

ncclResult_t ncclCommRegister(const ncclComm_t comm, void *at, size_t bytes, void **ret_handle)
{
    (void)at;
    (void)bytes;
    enter(comm);
    check_ready(comm);
    *ret_handle = comm;
    return leave(ncclSuccess);
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *handle)
{
    enter(comm);
    if (handle != comm)
        broken("memory that was not registered");
    return leave(ncclSuccess);
}

/* nccl.h declares them without parameters. */
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);

ncclResult_t ncclGroupStart(void)
{
    depth++;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
    if (--depth < 0)
        broken("the end of a group that was not begun");
    return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    enter(comm);
    check_ready(comm);
    comm->finalized = true;
    atomic_store(&comm->polls, CALL_POLLS);
    return leave(ncclInProgress);
}

/* Memory is kept, so that a later call is found. */
static void end(ncclComm_t comm)
{
    comm->magic = 0;
    (void)atomic_fetch_sub(&live, 1);
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    enter(comm);
    if (!comm->finalized || atomic_load(&comm->polls) > 0)
        broken("a communicator is destroyed that was not finalized");
    end(comm);
    return leave(ncclSuccess);
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    check_alive(comm);
    if (atomic_load(&inside))
        broken("an abort while another thread is in a call");
    if (!depth && atomic_load(&live) > 1)
        broken("one of several communicators is aborted, outside a group");
    atomic_store(&comm->stopped, 1);
    while (atomic_load(&graphs) > 0) /* for ever: it waits for them */
        pause_us(1000);
    end(comm);
    return ncclSuccess;
}
