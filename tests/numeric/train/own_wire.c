#include "tests/numeric/train/own_wire.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <worker/error.h>

#include "libworker/device/device_ops.h"
#include "libworker/device/rehearsal/rehearsal.h"
#include "libworker/device/wire_ops.h"
#include "tests/lib/exchange.h"
#include "tests/lib/check.h"

enum {
    POLLS = 3,      /* for which a new wire is pending */
    BREAKS_AT = 20, /* calls */
};

struct own_wires {
    _Atomic int prepared, opened, messages;
    _Atomic long long aborted_ms;
    size_t bytes;
};

/* The process's. */
static struct {
    struct own_wires *wires;
    enum own_wires_fault fault;
    struct device_ops ops;
    int busy; /* calls of a wire by the device's thread, which one at a time may make */
} own;

struct device_wire {
    struct exchange *ex;
    int rank, world;
    _Atomic int polls, stopped;
    _Atomic uint64_t calls;
    bool breaks;
    struct device_wire *before;
};

static struct exchange *exchange_of(struct own_wires *wires, int number)
{
    return (struct exchange *)(void *)((char *)wires + 4096 + (size_t)number * exchange_bytes());
}

struct own_wires *own_wires_new(void)
{
    size_t bytes = 4096 + OWN_WIRES_MAX * exchange_bytes();
    struct own_wires *wires = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                                   MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(wires != MAP_FAILED);
    wires->bytes = bytes;
    return wires;
}

void own_wires_clear(struct own_wires *wires)
{
    size_t bytes = wires->bytes;
    CHECK(madvise(wires, bytes, MADV_REMOVE) == 0);
    wires->bytes = bytes;
}

void own_wires_free(struct own_wires *wires)
{
    CHECK(munmap(wires, wires->bytes) == 0);
}

int own_wires_prepared(const struct own_wires *wires)
{
    return atomic_load(&wires->prepared);
}

int own_wires_messages(const struct own_wires *wires)
{
    return atomic_load(&wires->messages);
}

long long own_wires_aborted_ms(const struct own_wires *wires)
{
    return atomic_load(&wires->aborted_ms);
}

static long long now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

struct device *own_wires_device(uint64_t seed, void (*found)(void *self, const char *sentence),
                                void *self)
{
    const struct rehearsal_options options = {.seed = seed, .found = found, .self = self};
    struct device *device = NULL;
    CHECK(rehearsal_new(&options, &device, NULL) == 0);
    return device;
}

static void prepare(struct device *device)
{
    (void)device;
    (void)atomic_fetch_add(&own.wires->prepared, 1);
}

static int find(struct device *device, char ret_version[WIRE_VERSION_BYTES], struct error *err)
{
    (void)device;
    if (own.fault == OWN_WIRES_ABSENT)
        return error_set(err, WK_EUNAVAILABLE, "this device has no collectives of its own");
    (void)snprintf(ret_version, WIRE_VERSION_BYTES, "test 1");
    return 0;
}

static int new_id(struct device *device, unsigned char ret_id[WIRE_ID_BYTES], struct error *err)
{
    (void)device;
    (void)err;
    int number = atomic_fetch_add(&own.wires->opened, 1);
    CHECK(number < OWN_WIRES_MAX);
    memset(ret_id, 0, WIRE_ID_BYTES);
    memcpy(ret_id, &number, sizeof(number));
    return 0;
}

static int open_wire(struct device *device, const struct wire_place *place,
                     struct device_wire **ret, struct error *err)
{
    struct device_wire *wire = calloc(1, sizeof(*wire));
    int number;
    (void)device;
    (void)err;
    CHECK(wire);
    memcpy(&number, place->id, sizeof(number));
    *wire = (struct device_wire){exchange_of(own.wires, number), place->rank, place->world};
    wire->breaks = own.fault == OWN_WIRES_BREAK;
    own.fault = wire->breaks ? OWN_WIRES_WORK : own.fault; /* the first one */
    if (own.fault != OWN_WIRES_FAIL)
        exchange_join(wire->ex, place->rank, (uint64_t)getpid());
    *ret = wire;
    return 0;
}

static int ready(struct device_wire *wire, struct error *err)
{
    if (wire->breaks && atomic_load(&wire->calls) >= BREAKS_AT)
        return error_set(err, WK_EPEER, "the device's cable is broken");
    if (atomic_fetch_add(&wire->polls, 1) < POLLS || !exchange_joined(wire->ex, wire->world))
        return WIRE_PENDING;
    return 0;
}

struct message_args {
    struct device_wire *wire;
    struct wire_message message;
    struct exchange_call call;
};

static void run_publish(struct queue *queue, const void *args)
{
    const struct message_args *a = args;
    (void)queue;
    exchange_publish(a->wire->ex, &a->call, a->message.in);
}

static void run_message(struct queue *queue, const void *args)
{
    const struct message_args *a = args;
    (void)queue;
    (void)exchange_result(a->wire->ex, &a->call, a->message.out, &a->wire->stopped);
}

static void launch(struct queue *queue, const char *name, const struct message_args *args,
                   bool publishes)
{
    size_t size = wk_dtype_bytes(args->message.type);
    const struct device_range in = {args->message.in, exchange_in(&args->call) * size, DEVICE_READ};
    const struct device_range out = {args->message.out, exchange_out(&args->call) * size,
                                     DEVICE_WRITE};
    queue_launch(queue, &(struct device_launch){.name = name,
                                                .run = publishes ? run_publish : run_message,
                                                .args = args,
                                                .args_bytes = sizeof(*args),
                                                .ranges = publishes ? &in : &out,
                                                .n_ranges = 1});
}

static int enqueue(struct device_wire *wire, struct queue *queue,
                   const struct wire_message *message, struct error *err)
{
    static const enum exchange_kind kinds[] = {[WIRE_SUM] = EXCHANGE_SUM,
                                               [WIRE_SCATTER] = EXCHANGE_SCATTER,
                                               [WIRE_GATHER] = EXCHANGE_GATHER,
                                               [WIRE_EXCHANGE] = EXCHANGE_ALL,
                                               [WIRE_SPREAD] = EXCHANGE_SPREAD};
    struct message_args args = {wire,
                                *message,
                                {wire->calls++, kinds[message->op], message->count, message->type,
                                 message->root, wire->rank, wire->world}};
    (void)err;
    CHECK(!own.busy++);
    CHECK(message->count > 0);
    CHECK(wire->breaks || !ready(wire, NULL)); /* only the watch notices a break */
    (void)atomic_fetch_add(&own.wires->messages, 1);
    launch(queue, "publish a message", &args, true);
    own.ops.finish(event_record(queue));
    launch(queue, "receive a message", &args, false);
    own.busy--;
    return 0;
}

static void abort_wires(struct device_wire *const *wires, int n)
{
    for (int i = 0; i < n; i++)
        atomic_store(&wires[i]->stopped, 1);
    atomic_store(&own.wires->aborted_ms, now_ms());
    while (own.fault == OWN_WIRES_HANG)
        (void)pause();
}

static void close_wire(struct device_wire *wire)
{
    free(wire);
}

static const struct wire_ops own_ops = {.name = "test",
                                        .prepare = prepare,
                                        .find = find,
                                        .id = new_id,
                                        .open = open_wire,
                                        .ready = ready,
                                        .enqueue = enqueue,
                                        .abort = abort_wires,
                                        .close = close_wire};

void own_wires_give(struct own_wires *wires, struct device *device, enum own_wires_fault fault)
{
    own.wires = wires;
    own.fault = fault;
    own.ops = *device->ops;
    own.ops.wires = &own_ops;
    device->ops = &own.ops;
}
