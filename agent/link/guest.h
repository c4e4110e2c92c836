/* The workers that call the hub, and what each of them holds there: open calls, and those of them
 * that were passed on to the coordinator. One worker cannot take the places of another, nor those
 * of the agent's own calls. Owned by the worker socket; loop thread only.
 */
#ifndef LINK_GUEST_H
#define LINK_GUEST_H

#include "agent/core/event.h"
#include "common/base/error.h"
#include "common/base/map.h"

enum {
    GUESTS_FORWARDS_BUSY = 1024, /* passed on in sum; from then on each worker has the few */
    GUEST_FORWARDS_FEW = 8,
};

struct guest { /* forgotten once it holds nothing */
    struct worker_key key;
    int calls, forwards;
};

struct guests { /* zeroed memory is an empty one */
    struct strmap all;
    int forwards;
};

void guests_fini(struct guests *guests);

/* One more open call of this worker; E_RESOURCE_EXHAUSTED names the limit. */
int guest_enter(struct guests *guests, const struct worker_key *key, struct guest **ret,
                struct error *err);
void guest_leave(struct guests *guests, struct guest *guest);

/* One more call that is passed on. */
int guest_forward(struct guests *guests, struct guest *guest, struct error *err);
void guest_forwarded(struct guests *guests, struct guest *guest);

#endif
