/* Collectives that a device does itself, between its memory and that of the other ranks' devices:
 * an optional part of a device's table (device_ops.h). parallel/wires.c is the only caller, but of
 * `prepare` and `memory_new`. It opens a wire for a communicator whose ranks have agreed to, and
 * keeps the rules:
 *
 *      id on rank 0, sent to all ──► open ──► ready, until it is ──► enqueue … ──► close
 *                                      └───────────┴─────────── abort ────────────► close
 *
 * Threads: the device's thread calls, and no other, except that any thread may call `ready` and
 * `abort`. No call of a wire waits for another rank, except `close` of a wire that works.
 * Failure: the death of a rank is not noticed here. What is enqueued then waits until `abort`. It
 * ends soon after that, with undefined content. The caller notices deaths, and aborts.
 */
#ifndef DEVICE_WIRE_OPS_H
#define DEVICE_WIRE_OPS_H

#include <stdbool.h>
#include <stddef.h>

#include <worker/types.h>

#include "common/base/error.h"

struct device;
struct device_wire;
struct queue;

enum { WIRE_ID_BYTES = 128, WIRE_VERSION_BYTES = 64 };

/* What a rank is given at open: the same id and world on every rank. */
struct wire_place {
    const unsigned char *id; /* [WIRE_ID_BYTES], borrowed for the call */
    int rank, world;
};

/* sum: out[count] = the sum over the ranks of in[count], in an order that the device chooses.
 * scatter: out[count] = that of row `rank` of in[world, count]. gather: out[world, count] = each
 * rank's in[count]. exchange: row p of out[world, count] = row `rank` of rank p's in[world, count].
 * spread: out[count] = root's in[count]. */
enum wire_op { WIRE_SUM, WIRE_SCATTER, WIRE_GATHER, WIRE_EXCHANGE, WIRE_SPREAD };

/* Device memory. `in` and `out` do not overlap, with two exceptions. Those of sum and spread may be
 * the same. The shorter of two may be its own row of the other. */
struct wire_message {
    enum wire_op op;
    const void *in;
    void *out;
    size_t count; /* > 0 */
    enum wk_dtype type;
    int root;
};

/* Memory that wires use in every step. Shared: the ranks enroll it together, each the same number
 * of bytes, and then use the same places of it in each collective. */
struct wire_memory {
    void *at;
    size_t bytes;
    bool shared;
};

enum wire_state { WIRE_PENDING = 1 }; /* of `ready`: not yet */

struct wire_ops {
    const char *name; /* "nccl" */

    /* Begin in the background what the first `find` would wait for, such as loading a library.
     * Where several ranks may need them, before the first `find`. NULL: there is nothing. */
    void (*prepare)(struct device *device);

    /* Whether this machine has them, and which: all ranks compare the versions. WK_EUNAVAILABLE
     * with a sentence. The first call may load a library. */
    int (*find)(struct device *device, char ret_version[WIRE_VERSION_BYTES], struct error *err);

    /* A new id, on one rank. */
    int (*id)(struct device *device, unsigned char ret_id[WIRE_ID_BYTES], struct error *err);

    /* Begin to connect to the other ranks. On failure there is nothing to close. */
    int (*open)(struct device *device, const struct wire_place *place, struct device_wire **ret,
                struct error *err);

    /* 0: the wire works. WIRE_PENDING: it does not yet, or its last message is not enqueued yet.
     * Else the code of its failure. */
    int (*ready)(struct device_wire *wire, struct error *err);

    /* Take part in a collective after the queue's earlier work. Every rank enqueues the same ones
     * in the same order. Nothing is enqueued on a wire that was aborted. Returns a code for what
     * the device refuses, and what `ready` would. */
    int (*enqueue)(struct device_wire *wire, struct queue *queue,
                   const struct wire_message *message, struct error *err);

    /* Device memory that can be shared, freed as all memory of the device. NULL: there is none. */
    void *(*memory_new)(struct device *device, size_t bytes);

    /* Whether this rank could share the memory that begins at `at`. NULL: it never can. */
    bool (*shares)(const struct device_wire *wire, const void *at);

    /* Memory that the wire will often use, until close, or until it is freed. Shared: `ready` is 0
     * once all ranks have enrolled it, and a failure is the wire's. NULL: it need not know. */
    int (*enroll)(struct device_wire *wire, const struct wire_memory *memory, struct error *err);

    /* End what all these wires of one device have enqueued. May wait long, for the device.
     * Repeating it changes nothing. */
    void (*abort)(struct device_wire *const *wires, int n);

    /* Of a wire that works: once all ranks have what was enqueued; then all ranks call it. */
    void (*close)(struct device_wire *wire);
};

/* Zeroed device memory for what wires use in every step: memory_new's, or else as all other. */
int wire_zeros_new(struct queue *queue, size_t bytes, void **ret_memory, struct error *err);

const struct wire_ops *device_wires(const struct device *device); /* NULL: it has none */

#endif
