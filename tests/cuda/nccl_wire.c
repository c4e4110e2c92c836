/* own_wire.h by the CUDA module's wires, over the fake NCCL. Whose streams those are is
 * nccl_place.h's. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "libworker/cuda/nccl.h"
#include "libworker/cuda/nccl_api.h"
#include "libworker/device/device_ops.h"
#include "tests/cuda/fake_nccl.h"
#include "tests/cuda/nccl_place.h"
#include "tests/lib/check.h"
#include "tests/lib/tmpdir.h"
#include "tests/numeric/train/own_wire.h"

struct own_wires {
    _Atomic int prepared, messages, shared, unshared;
    _Atomic long long aborted_ms;
    _Atomic int gpu; /* of a process; 0: none yet */
    struct tmpdir dir;
};

/* The process's. */
static struct {
    struct own_wires *wires;
    enum own_wires_fault fault;
    struct device_ops ops;
    struct wire_ops wire_ops;
    fake_nccl_graphs_fn *graphs;
    struct fake_nccl_work works[2]; /* of the call under way */
    int n_works;
} own;

struct own_wires *own_wires_new(void)
{
    struct own_wires *wires =
        mmap(NULL, sizeof(*wires), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(wires != MAP_FAILED);
    wires->dir = tmpdir_make();
    return wires;
}

void own_wires_clear(struct own_wires *wires)
{
    tmpdir_remove(&wires->dir);
    memset(wires, 0, sizeof(*wires));
    wires->dir = tmpdir_make();
}

void own_wires_free(struct own_wires *wires)
{
    tmpdir_remove(&wires->dir);
    CHECK(munmap(wires, sizeof(*wires)) == 0);
}

void own_wires_id(const struct own_wires *wires, unsigned char *ret_id)
{
    CHECK(snprintf((char *)ret_id, WIRE_ID_BYTES, "%s/wire", wires->dir.path) < WIRE_ID_BYTES);
}

int own_wires_prepared(const struct own_wires *wires)
{
    return atomic_load(&wires->prepared);
}

int own_wires_shared(const struct own_wires *wires)
{
    return atomic_load(&wires->shared);
}

int own_wires_unshared(const struct own_wires *wires)
{
    return atomic_load(&wires->unshared);
}

int own_wires_messages(const struct own_wires *wires)
{
    return atomic_load(&wires->messages);
}

long long own_wires_aborted_ms(const struct own_wires *wires)
{
    return atomic_load(&wires->aborted_ms);
}

static void prepare(struct device *device)
{
    (void)atomic_fetch_add(&own.wires->prepared, 1);
    nccl_wires.prepare(place_device(device));
}

static int find(struct device *device, char ret_version[WIRE_VERSION_BYTES], struct error *err)
{
    return nccl_wires.find(place_device(device), ret_version, err);
}

static int new_id(struct device *device, unsigned char ret_id[WIRE_ID_BYTES], struct error *err)
{
    return nccl_wires.id(place_device(device), ret_id, err);
}

static int open_wire(struct device *device, const struct wire_place *place,
                     struct device_wire **ret, struct error *err)
{
    return nccl_wires.open(place_device(device), place, ret, err);
}

/* NCCL's calls run nothing, so what a fake may run at once is enqueued after them. */
static int enqueue(struct device_wire *wire, struct queue *queue,
                   const struct wire_message *message, struct error *err)
{
    own.n_works = 0;
    int rc = place_send(wire, queue, message, err);
    if (rc)
        return rc;
    CHECK(own.n_works == 2);
    (void)atomic_fetch_add(&own.wires->messages, 1);
    place_run(queue, &own.works[0], &own.works[1]);
    return 0;
}

static int enroll(struct device_wire *wire, const struct wire_memory *memory, struct error *err)
{
    int rc = nccl_wires.enroll(wire, memory, err);
    if (!rc)
        (void)atomic_fetch_add(memory->shared ? &own.wires->shared : &own.wires->unshared, 1);
    return rc;
}

static void abort_wires(struct device_wire *const *wires, int n)
{
    struct timespec now;
    nccl_wires.abort(wires, n);
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    atomic_store(&own.wires->aborted_ms, (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000);
}

/* One rank has the GPU of another, if that is the fault. */
static uint64_t gpu_of(void)
{
    int none = 0, pid = (int)getpid();
    if (own.fault != OWN_WIRES_FAIL) {
        (void)atomic_compare_exchange_strong(&own.wires->gpu, &none, pid);
        return (uint64_t)pid;
    }
    while (!atomic_load(&own.wires->gpu))
        (void)usleep(1000);
    return (uint64_t)atomic_load(&own.wires->gpu);
}

static void enqueue_work(void *stream, const struct fake_nccl_work *work)
{
    (void)stream;
    own.works[own.n_works++] = *work;
}

static void *find_call(void *library, const char *name)
{
    void *call = dlsym(library, name);
    CHECK(call);
    return call;
}

static void begin_fake(void)
{
    static const struct fake_nccl_streams streams = {gpu_of, enqueue_work, place_real_memory,
                                                     place_free_memory};
    void *library = dlopen(FAKE_NCCL, RTLD_NOW | RTLD_LOCAL), *call;
    fake_nccl_begin_fn *begin;
    CHECK(library);
    call = find_call(library, "fake_nccl_begin");
    memcpy(&begin, &call, sizeof(begin));
    call = find_call(library, "fake_nccl_graphs");
    memcpy(&own.graphs, &call, sizeof(own.graphs));
    begin(&streams, own.wires->dir.path);
}

void own_wires_give(struct own_wires *wires, struct device *device, enum own_wires_fault fault)
{
    own.wires = wires;
    own.fault = fault;
    nccl_api_prepare();
    begin_fake();
    if (fault == OWN_WIRES_BREAK)
        CHECK(setenv("FAKE_NCCL_BREAK", "1", 1) == 0);
    if (fault == OWN_WIRES_SCARCE)
        CHECK(setenv("FAKE_NCCL_SCARCE", "1", 1) == 0);
    if (fault == OWN_WIRES_NO_WINDOWS)
        CHECK(setenv("FAKE_NCCL_NO_WINDOWS", "1", 1) == 0);
    CHECK(setenv("MUSTER_NCCL", fault == OWN_WIRES_ABSENT ? "/nowhere.so" : FAKE_NCCL, 1) == 0);
    if (fault == OWN_WIRES_HANG)
        own.graphs(1);
    own.wire_ops = nccl_wires;
    own.wire_ops.prepare = prepare;
    own.wire_ops.find = find;
    own.wire_ops.id = new_id;
    own.wire_ops.open = open_wire;
    own.wire_ops.memory_new = place_memory;
    own.wire_ops.enroll = enroll;
    own.wire_ops.enqueue = enqueue;
    own.wire_ops.abort = abort_wires;
    own.ops = *device->ops;
    own.ops.wires = &own.wire_ops;
    device->ops = &own.ops;
}
