/* The operation of docs/graph.md with functions for a GPU, too. */
#ifndef FAKE_OWN_PRELU_H
#define FAKE_OWN_PRELU_H

#include <worker/custom_op.h>

#ifdef __cplusplus
extern "C" {
#endif

int own_prelu_forward(struct wk_op_call *call);
int own_prelu_backward(struct wk_op_call *call);

#ifdef __cplusplus
}
#endif

#endif
