/* The workers that call the hub, and the open and forwarded calls of each. One worker cannot use up
 * the places of another, nor those of the agent's own calls. Owned by the worker socket; loop
 * thread only. */
#ifndef LINK_GUEST_H
#define LINK_GUEST_H

#include "agent/core/event.h"
#include "common/base/error.h"
#include "common/base/map.h"

enum {
    GUESTS_FORWARDS_BUSY = 1024, /* forwarded calls in sum; above it each worker has only a few */
    GUEST_FORWARDS_FEW = 8,
};

struct guest { /* forgotten when it has no calls */
    struct worker_key key;
    int calls, forwards;
};

struct guests { /* zeroed memory is empty */
    struct strmap all;
    int forwards;
};

void guests_fini(struct guests *guests);

/* Count one more open call of this worker; E_RESOURCE_EXHAUSTED names the limit. */
int guest_enter(struct guests *guests, const struct worker_key *key, struct guest **ret,
                struct error *err);
void guest_leave(struct guests *guests, struct guest *guest);

/* Count one more forwarded call. */
int guest_forward(struct guests *guests, struct guest *guest, struct error *err);
void guest_forwarded(struct guests *guests, struct guest *guest);

#endif
