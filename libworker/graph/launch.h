/* A step of a plan: a kernel, a copy, or a point of a pass at which something else happens. */
#ifndef GRAPH_LAUNCH_H
#define GRAPH_LAUNCH_H

#include <stdbool.h>

#include "libworker/graph/graph.h"

enum launch_kind {
    LAUNCH_FORWARD,
    LAUNCH_BACKWARD,
    LAUNCH_COPY,   /* out[0] = in[0] */
    LAUNCH_ADD,    /* out[0] += in[0] */
    LAUNCH_LOSS,   /* the sum of in[0] is added to loss `index` */
    LAUNCH_MEET,   /* a row that meets: forward out[0] = the ranks' in[0], backward d_in of d_out */
    LAUNCH_UPDATE, /* buffer `index` becomes in[0] after this pass */
    LAUNCH_SEED,   /* out[0], the gradient of loss `index`; added if add bit 0 is set */
    LAUNCH_ENTER,
    LAUNCH_LEAVE, /* block `index` of the model */
    LAUNCH_READY, /* parameter `index` gets no more gradient */
    /* Copies beside the kernels (offload.h), each in one of LAUNCH_TURNS turns, `index`. */
    LAUNCH_OUT,       /* in[0] of the device is on its way to out[0] of the host */
    LAUNCH_OUT_DONE,  /* the memory of in[0] is free for other values */
    LAUNCH_BACK,      /* in[0] of the host is on its way to out[0] of the device */
    LAUNCH_BACK_DONE, /* out[0] may be read */
};

enum { LAUNCH_TURNS = 2 }; /* copies of a direction that have begun and are not done, at most */

struct launch {
    enum launch_kind kind;
    bool backward; /* which pass it is of */
    bool again;    /* of FORWARD: computed again for the backward pass */
    int index;
    const struct node *node;
    const struct node *sum; /* of a launch for two nodes (join.h): the other one, or NULL */
    /* Numbers of values, -1 for none. d_in follows op_call.h; `add` has a bit for each. */
    int in[NODE_INPUTS_MAX], out[NODE_OUTPUTS_MAX], d_in[NODE_INPUTS_MAX], d_out;
    unsigned add;
    int scratch; /* value of what the kernel needs meanwhile, or -1 */
    int cache;   /* value of what it keeps for later positions, or -1 */
};

static inline bool launch_is_host_copy(const struct launch *launch)
{
    return launch->kind == LAUNCH_OUT || launch->kind == LAUNCH_OUT_DONE ||
           launch->kind == LAUNCH_BACK || launch->kind == LAUNCH_BACK_DONE;
}

#endif
