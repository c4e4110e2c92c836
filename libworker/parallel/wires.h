/* The wires of a context's device: its own collectives (device/wire_ops.h), for each communicator
 * whose ranks all have them. Here is what any device's need:
 *
 *      opening     the ranks compare versions, rank 0's id goes to all, and each waits for its
 *                  wire, the communicator's failure or a deadline. All ranks have a wire, or none
 *      watching    a thread looks every WIRES_LOOK_MS whether a communicator has failed, or a rank
 *                  is lost or has left. Then it stops the wires: sets the word that launches read,
 *                  and aborts
 *      the end     if the abort has not returned within a deadline the process ends, for the agent
 *                  to start it again: exit code WIRES_EXIT
 *      sums        in rank order, in float and rounded once: the bits of worker/comm.h. Rows are
 *                  exchanged, each rank sums its piece, pieces are gathered. Or, where fast sums
 *                  are set, floats in the device's order
 *
 *      by hosts    where that is set, wires join the ranks of a host alone. Between hosts data goes
 *                  by worker/comm.h (wire_two_level.h)
 *
 * All collectives run in the order of the calls, on a queue of their own. A wire of a single rank
 * copies. NULL instead of wires is allowed everywhere: nothing has one.
 *
 * Owned by the context. The device's thread calls; any thread may call wires_failure.
 */
#ifndef PARALLEL_WIRES_H
#define PARALLEL_WIRES_H

#include <stdbool.h>
#include <stdint.h>

#include <worker/comm.h>

#include "common/base/error.h"
#include "libworker/device/device.h"
#include "libworker/device/wire_ops.h"
#include "libworker/parallel/wires_hosts.h"

enum {
    WIRES_LOOK_MS = 20,
    WIRES_LEFT_MS = 2000, /* for what is enqueued to end once a rank has left */
    WIRES_MAX = 32,       /* communicators at a time */
    WIRES_EXIT = 71,      /* EX_OSERR: not now, or not here */
};

struct wires;

struct wires_options {
    bool fast;        /* sums of floats are the device's */
    bool off;         /* several ranks have no wires */
    bool by_hosts;    /* where ranks are on several hosts, there is a wire for each host alone */
    int64_t open_ms;  /* to have a wire that works */
    int64_t abort_ms; /* to have it aborted; then the process ends */
    /* Gets a sentence when ranks have no wires. Any thread calls it; may be NULL. */
    void (*remark)(void *arg, const char *sentence);
    void *arg;
};

/* On the device of `queue`, the model's, which outlives them. *ret is NULL where the host reads the
 * device's memory: collectives use it in place. WK_ENOMEM. */
int wires_new(struct queue *queue, const struct wires_options *options, struct wires **ret,
              struct error *err);
void wires_free(struct wires *wires); /* after wires_leave */

/* Open the communicator's wire, if all its ranks have one. Collective. 0 also if they have none; a
 * code of the communicator. */
int wires_meet(struct wires *wires, struct wk_comm *comm, struct error *err);

/* Close a communicator's wire, or all, before the communicator is closed; all its ranks do. Where
 * none has failed, wait for the device first. */
void wires_close(struct wires *wires, const struct wk_comm *comm);
void wires_leave(struct wires *wires);

/* The groups of a communicator that has a wire for each host instead (wires_hosts.h); or NULLs.
 * Whether sums of floats may then be made by both levels: their order is not that of the ranks. */
struct hosts_pair wires_hosts(const struct wires *wires, const struct wk_comm *comm);
bool wires_fast(const struct wires *wires);

/* Whether this communicator has one. The queue that its collectives run on. */
bool wires_have(const struct wires *wires, const struct wk_comm *comm);
struct queue *wires_queue(const struct wires *wires);

/* A collective of memory of the device, as in wire_ops.h, after all earlier work of wires_queue. */
struct wires_call {
    struct wk_comm *comm;
    enum wire_op op;
    const void *in;
    void *out;
    size_t count;
    enum wk_dtype type,
        out_type; /* out_type of sums: f32, f16 or bf16 in any pair, or both alike */
    int root;
    bool as_float; /* sums of f64: each number and each sum is rounded to float */
};

/* Enqueue it. The code of a failure that stays: of the wires, of the device. */
int wires_enqueue(struct wires *wires, const struct wires_call *call, struct error *err);

/* Memory that collectives will often use, until wires_leave or until it is freed. Collective: every
 * rank of the communicator enrolls the same memories in the same order. */
void wires_enroll(struct wires *wires, struct wk_comm *comm, void *at, size_t bytes);

/* 0, or why the wires of this generation were stopped: WK_EPEER, WK_EABORT, … */
int wires_failure(const struct wires *wires);

/* Enqueue on `queue`: *finite = 0 in device memory, if the wires were stopped by then. Only after
 * that can a collective have undefined content. Once a wait shows it, so does wires_failure. */
void wires_note_stop(const struct wires *wires, struct queue *queue, double *finite);

#endif
