/* Operations of the program's own (worker/custom_op.h): custom.c builds them, custom_call.c calls
 * their functions. They belong to their graph. One thread.
 */
#ifndef OP_CUSTOM_H
#define OP_CUSTOM_H

#include <worker/custom_op.h>

#include "libworker/graph/op.h"

struct custom {
    struct op_row row; /* first: a node's row is its operation */
    struct wk_custom_op op;
};

/* Slots of the row. A function that fails fails the queue's device. On a device with kernels of its
 * own these are no launches: called on the host, they enqueue on call->queue. */
void custom_forward(const struct op_call *call);
void custom_backward(const struct op_call *call);
size_t custom_scratch_bytes(const struct op_call *call, bool backward);
void custom_cost(const struct op_call *call, bool backward, struct op_cost *ret);

bool node_is_custom(const struct node *node);

/* WK_EUNSUPPORTED, with a sentence, if the node is the program's and has no functions for this
 * device. */
int custom_check_device(const struct node *node, const char *device, struct error *err);

#endif
