#include "tests/cuda/fake_nccl.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "tests/cuda/fake_nccl_inside.h"

enum {
    MAGIC = 0x6e63636c,
    INIT_POLLS = 4, /* for which something new is in progress */
    CALL_POLLS = 2,
    BREAKS_AT = 20, /* calls, of a first communicator with FAKE_NCCL_BREAK */
    PATH = NCCL_UNIQUE_ID_BYTES,
};

/* The process's. */
struct fake_nccl_streams fake_nccl_streams;
struct ncclComm *fake_nccl_comms;
pthread_mutex_t fake_nccl_lock = PTHREAD_MUTEX_INITIALIZER;
static char folder[PATH / 2];
static _Atomic int ids, graphs, live, inside, has_thread, has_broken;
static pthread_t thread;
static _Thread_local int depth; /* of groups */

_Noreturn void fake_nccl_broken(const char *rule)
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
    fake_nccl_streams = *given;
    if (snprintf(folder, sizeof(folder), "%s", where) >= (int)sizeof(folder))
        fake_nccl_broken("the folder's name is too long for an id");
}

__attribute__((visibility("default"))) void fake_nccl_graphs(int change)
{
    (void)atomic_fetch_add(&graphs, change);
}

static void check_alive(ncclComm_t comm)
{
    if (!comm || comm->magic != MAGIC)
        fake_nccl_broken("a call of a communicator that was destroyed or aborted");
}

/* Calls but CommGetAsyncError and CommAbort are of one thread. */
void fake_nccl_enter(ncclComm_t comm)
{
    check_alive(comm);
    if (!atomic_exchange(&has_thread, 1))
        thread = pthread_self();
    if (!pthread_equal(thread, pthread_self()))
        fake_nccl_broken("calls of two threads");
    if (atomic_fetch_add(&inside, 1))
        fake_nccl_broken("two calls at a time");
}

ncclResult_t fake_nccl_leave(ncclResult_t result)
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
        fake_nccl_broken("a communicator that blocks");
    comm->magic = MAGIC;
    comm->breaks = getenv("FAKE_NCCL_BREAK") && !atomic_exchange(&has_broken, 1);
    comm->ex = map(&id);
    comm->rank = rank;
    comm->world = world;
    if (!comm->ex)
        return ncclSystemError;
    fake_nccl_enter(comm);
    exchange_join(comm->ex, rank, fake_nccl_streams.device());
    atomic_store(&comm->polls, INIT_POLLS);
    (void)atomic_fetch_add(&live, 1);
    pthread_mutex_lock(&fake_nccl_lock);
    comm->next = fake_nccl_comms;
    fake_nccl_comms = comm;
    pthread_mutex_unlock(&fake_nccl_lock);
    *ret = comm;
    return fake_nccl_leave(ncclInProgress);
}

static ncclResult_t state_of(ncclComm_t comm)
{
    if (atomic_load(&comm->polls) > 0 && atomic_fetch_sub(&comm->polls, 1) > 0)
        return ncclInProgress;
    if (!comm->initialized && !exchange_joined(comm->ex, comm->world))
        return ncclInProgress;
    comm->initialized = true;
    if (comm->failed)
        return ncclUnhandledCudaError;
    if (comm->breaks && comm->calls >= BREAKS_AT)
        return ncclSystemError;
    if (fake_nccl_window_waits(comm))
        return ncclInProgress;
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

void fake_nccl_ready(ncclComm_t comm)
{
    if (atomic_load(&comm->polls) > 0 || !comm->initialized || comm->pending_ret)
        fake_nccl_broken("a call while an earlier one is in progress");
    if (comm->finalized)
        fake_nccl_broken("a collective of a communicator that was finalized");
}

struct part {
    struct ncclComm *comm;
    struct exchange_call call;
    const void *in;
    void *out;
    bool ended;
};

static void run_publish(void *arg)
{
    const struct part *part = arg;
    exchange_publish(part->comm->ex, &part->call, part->in);
}

/* Silent until all parts are there, or the communicator is aborted. */
static void run_receive(void *arg)
{
    struct part *part = arg;
    (void)exchange_result(part->comm->ex, &part->call, part->out, &part->comm->stopped);
    if (!part->ended)
        (void)atomic_fetch_sub(&part->comm->running, 1);
    part->ended = true;
}

static enum wk_dtype type_of(ncclDataType_t type)
{
    static const enum wk_dtype types[] = {
        [ncclInt8] = WK_U8,      [ncclUint8] = WK_U8,    [ncclInt32] = WK_I32,
        [ncclUint32] = WK_I32,   [ncclInt64] = WK_I64,   [ncclUint64] = WK_I64,
        [ncclFloat16] = WK_F16,  [ncclFloat32] = WK_F32, [ncclFloat64] = WK_F64,
        [ncclBfloat16] = WK_BF16};
    if (type > ncclBfloat16)
        fake_nccl_broken("an element type that the fake does not know");
    return types[type];
}

/* Of what other ranks read or write in a window: they take the place of their own. */
static uint64_t place_of(const struct part *part)
{
    size_t size = wk_dtype_bytes(part->call.type);
    size_t in = exchange_in(&part->call) * size, out = exchange_out(&part->call) * size;
    switch (part->call.kind) {
    case EXCHANGE_SUM:
        return 31 * fake_nccl_place(part->comm, part->in, in) +
               fake_nccl_place(part->comm, part->out, out);
    case EXCHANGE_SCATTER:
    case EXCHANGE_ALL:
        return fake_nccl_place(part->comm, part->in, in);
    case EXCHANGE_GATHER:
    case EXCHANGE_SPREAD:
        return fake_nccl_place(part->comm, part->out, out);
    }
    return 0;
}

static ncclResult_t collective(const struct part *given, cudaStream_t stream)
{
    struct part *part = malloc(sizeof(*part));
    if (!part)
        return ncclSystemError;
    *part = *given;
    struct ncclComm *comm = part->comm;
    fake_nccl_enter(comm);
    fake_nccl_ready(comm);
    if (depth)
        fake_nccl_broken("a collective in a group");
    part->call.number = comm->calls++;
    part->call.rank = comm->rank;
    part->call.world = comm->world;
    part->call.place = place_of(part);
    size_t size = wk_dtype_bytes(part->call.type);
    fake_nccl_streams.enqueue(
        stream, &(struct fake_nccl_work){.name = "publish a message",
                                         .run = run_publish,
                                         .arg = part,
                                         .in = part->in,
                                         .in_bytes = exchange_in(&part->call) * size});
    fake_nccl_streams.enqueue(
        stream, &(struct fake_nccl_work){.name = "receive a message",
                                         .run = run_receive,
                                         .arg = part,
                                         .out = part->out,
                                         .out_bytes = exchange_out(&part->call) * size});
    (void)atomic_fetch_add(&comm->running, 1);
    atomic_store(&comm->polls, CALL_POLLS);
    return fake_nccl_leave(ncclInProgress);
}

#define PART(kind, root)                                                                           \
    &(struct part)                                                                                 \
    {                                                                                              \
        comm, {0, kind, count, type_of(type), root, 0, 0, 0}, in, out, false                       \
    }

ncclResult_t ncclAllReduce(const void *in, void *out, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    if (op != ncclSum)
        fake_nccl_broken("a reduction that is no sum");
    return collective(PART(EXCHANGE_SUM, 0), stream);
}

ncclResult_t ncclReduceScatter(const void *in, void *out, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    if (op != ncclSum)
        fake_nccl_broken("a reduction that is no sum");
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
        fake_nccl_broken("the end of a group that was not begun");
    return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    fake_nccl_enter(comm);
    fake_nccl_ready(comm);
    for (int i = 0; i < comm->n_enrolled; i++)
        if (comm->enrolled[i].at)
            fake_nccl_broken("a communicator ends with memory that is registered");
    comm->finalized = true;
    atomic_store(&comm->polls, CALL_POLLS);
    return fake_nccl_leave(ncclInProgress);
}

/* Memory is kept, so that a later call is found. */
static void end(ncclComm_t comm)
{
    pthread_mutex_lock(&fake_nccl_lock);
    struct ncclComm **at = &fake_nccl_comms;
    while (*at != comm)
        at = &(*at)->next;
    *at = comm->next;
    pthread_mutex_unlock(&fake_nccl_lock);
    comm->magic = 0;
    (void)atomic_fetch_sub(&live, 1);
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    fake_nccl_enter(comm);
    if (!comm->finalized || atomic_load(&comm->polls) > 0)
        fake_nccl_broken("a communicator is destroyed that was not finalized");
    end(comm);
    return fake_nccl_leave(ncclSuccess);
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    check_alive(comm);
    if (atomic_load(&inside))
        fake_nccl_broken("an abort while another thread is in a call");
    if (!depth && atomic_load(&live) > 1)
        fake_nccl_broken("one of several communicators is aborted, outside a group");
    atomic_store(&comm->stopped, 1);
    while (atomic_load(&graphs) > 0) /* for ever: it waits for them */
        pause_us(1000);
    end(comm);
    return ncclSuccess;
}
