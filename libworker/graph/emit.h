/* The state of a plan while its launches are listed: each tensor's values, and the memory that they
 * need from when to when. emit.c has the values, emit_forward.c and emit_backward.c the launches of
 * one work, schedule.c the order of all of them. */
#ifndef GRAPH_EMIT_H
#define GRAPH_EMIT_H

#include <stdbool.h>

#include "libworker/graph/keep.h"
#include "libworker/graph/layout.h"
#include "libworker/graph/op.h"
#include "libworker/graph/plan.h"
#include "libworker/graph/recompute.h"

/* What a tensor's gradient waits for. */
struct grad {
    int value;   /* -1: none yet */
    int uses;    /* works that will still add to it; of parameters, too */
    bool comes;  /* there is at least one such work */
    bool narrow; /* it is in the compute type */
};

struct emitter {
    const struct wk_graph *graph;
    struct trace trace;
    struct keep keep;
    struct recompute recompute;
    struct plan *plan;
    const int *blocks;
    /* [tensors] */
    int *value[2];              /* of the forward pass, and of what is computed again; -1: none */
    const struct node **joined; /* [works]: for a sum and the norm after it (join.h), or NULL */
    struct grad *grads;         /* also of parameters */
    /* [storages] */
    struct storage *storages;
    int *sharers; /* gradients in it that are still to be read */
    int n_storages, storages_capacity, sharers_capacity;
    bool without_memory;
};

/* WK_ENOMEM. emit_fini accepts zeroed memory. */
int emit_init(struct emitter *emitter, const struct wk_graph *graph, struct plan *plan,
              const int *blocks, struct error *err);
void emit_fini(struct emitter *emitter);

/* Begin without launches and values, as often as works are chosen (recompute.h). */
void emit_begin(struct emitter *emitter);

/* A new value of the tensor's shape, in this storage; -1: in one of its own. */
int emit_value(struct emitter *emitter, const struct wk_tensor *tensor, enum wk_dtype type,
               int storage);

/* A new value like that one, in this storage. */
int emit_value_in(struct emitter *emitter, int value, int storage);

/* The value of a result as the plan keeps it (keep.h). */
int emit_result(struct emitter *emitter, const struct wk_tensor *tensor, int storage);

/* The value of a tensor that `work` reads; `again`: in the backward pass, where a value of its own
 * block may be one that was computed again. */
int emit_read(struct emitter *emitter, const struct work *work, struct wk_tensor *tensor,
              bool again);

/* Append a launch, and note that it touches its values. */
struct launch emit_blank(enum launch_kind kind);
void emit_launch(struct emitter *emitter, const struct launch *launch);

/* The same for a kernel of an operation, with its scratch memory. */
void emit_kernel(struct emitter *emitter, struct launch *launch);

/* The kernel of a work, or its memory for a view. `again`: once more, for the backward pass. */
void emit_forward(struct emitter *emitter, const struct work *work, bool again);

/* Nothing reads `in` but this work, and out[0] may be in its memory. */
bool emit_is_free_for(const struct emitter *emitter, const struct work *work,
                      const struct wk_tensor *in);

/* Count what each gradient waits for. Call before the first emit_backward. */
void emit_count_uses(struct emitter *emitter);
bool emit_has_backward(const struct emitter *emitter, const struct work *work);

/* The gradient of loss `index` begins. */
void emit_seed(struct emitter *emitter, int index);
void emit_backward(struct emitter *emitter, const struct work *work);

#endif
