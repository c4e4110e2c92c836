/* Collectives of memory that may be a device's: what strategies and passes call. Which way they go
 * is known by communicator, and the same on all its ranks:
 *
 *      WIRE_DIRECT   the host reads the memory: worker/comm.h, in place
 *      WIRE_STAGED   through copies on the host (stage.h), which worker/comm.h works on: of all
 *                    data, or of this rank's part of its host's data (wire_two_level.h)
 *      WIRE_OWN      the device's own (wires.h): enqueued, the host waits for nothing
 *
 *      start ──► begin ──► finish: `out` is there for what the model's queue does next
 *         └──────────┴──► forget, and nothing is known of `out`
 *
 * Results have the same bits each way, unless fast sums are set (wires.h). Only a staged one has
 * use for `begin`. There the host waits for its copy of the gradients, so the caller enqueues more
 * first. Every rank starts and begins the same ones in the same order. Owned by a strategy, whose
 * thread calls.
 */
#ifndef PARALLEL_WIRE_H
#define PARALLEL_WIRE_H

#include "libworker/parallel/stage.h"
#include "libworker/parallel/wires.h"

enum wire_way { WIRE_DIRECT, WIRE_STAGED, WIRE_OWN };

struct wire {
    struct wires *wires; /* borrowed; NULL: no communicator has one */
    struct stages stages;
    size_t stage_bytes;        /* copies have at least this size, so that each serves every call */
    struct error why;          /* the sentence of a failure that no communicator has */
    struct scratch *partial;   /* sums of a host that are not in `out` */
    struct event partial_read; /* once they are on the host */
    bool queue_given;          /* since the last start: what was written there comes first */
};

/* Memory of the queue's device. */
void wire_init(struct wire *wire, struct queue *queue, struct wires *wires);
void wire_fini(struct wire *wire); /* waits for copies; zeroed memory is allowed */

/* After forgets: wait for all copies, and let the model's queue wait for all collectives. Zeroed
 * memory is allowed. */
void wire_drain(struct wire *wire);

enum wire_way wire_way(const struct wire *wire, const struct wk_comm *comm);

/* Whether sums of floats have calls here that are faster than those of whole copies on the host. */
bool wire_sums(const struct wire *wire, const struct wk_comm *comm);

/* The queue on which to write `in` just before a start, so that the call is after it. WK_ENOMEM. */
int wire_queue(struct wire *wire, const struct wk_comm *comm, struct queue **ret);

/* Memory that collectives of this communicator will use in every step; wires_enroll's rules. */
void wire_enroll(struct wire *wire, struct wk_comm *comm, void *at, size_t bytes);

/* Addresses and counts as in device/wire_ops.h; counts may be 0. */
struct wire_call {
    enum wire_op op;
    const void *in;
    void *out;
    size_t count;
    enum wk_dtype type, out_type; /* out_type: of sums that convert; equal to type else */
    int root;
    bool as_float;       /* of own wires: as in wires.h */
    struct event ready;  /* `in` is written then */
    struct event unused; /* `out` is no longer used then */
    /* Of sums of floats: whether one is not finite. NULL: not asked. Own wires leave it alone. */
    int *ret_nonfinite;
};

struct wire_work {
    struct wire *wire; /* NULL: nothing is under way */
    struct wire_call call;
    struct wk_comm *comm;
    struct wk_work *work;
    struct stage *stage;
    struct hosts_pair hosts; /* of a call in two levels */
    struct event done;
    bool begun;
    int failure; /* of the begin */
};

/* All return the code of a collective, or of a copy: its sentence is wire->why then. After a failed
 * start nothing is under way. begin and finish of nothing return 0. After a finish `done` is when
 * `out` is there: the next collective of it may be `ready` then. */
int wire_start(struct wire *wire, struct wk_comm *comm, const struct wire_call *call,
               struct wire_work *ret);
int wire_begin(struct wire_work *work);
int wire_finish(struct wire_work *work);

/* A finish after which only another collective uses `out`: the model's queue need not wait. */
int wire_finish_part(struct wire_work *work);

/* Wait for it, and leave its result. */
void wire_forget(struct wire_work *work);

/* All three, with a sentence in err. */
int wire_run(struct wire *wire, struct wk_comm *comm, const struct wire_call *call,
             struct error *err);

#endif
