/* A page of the state after a past event, as messages. Reads the store only: no coordinator has to
 * run. Any one thread. */
#ifndef API_RPC_REPLAY_H
#define API_RPC_REPLAY_H

#include "common/base/arena.h"
#include "coordinator/store/store.h"
#include "proto/client.pb-c.h"

enum { REPLAY_PAGE_MAX = STORE_PAST_PAGE_MAX };

struct replay_page {
    Muster__ReplayAnswer answer; /* borrows the other fields */
    struct arena arena;
    struct job *jobs[REPLAY_PAGE_MAX];
    ProtobufCMessage *specs[REPLAY_PAGE_MAX];
    int jobs_count;
};

/* E_OUT_OF_RANGE if the state at the event cannot be rebuilt, E_INVALID_ARGUMENT for an invalid
 * cursor. Call replay_page_fini on failure too. */
int replay_page_read(struct store *store, const Muster__ReplayRequest *request,
                     struct replay_page *ret, struct error *err);
void replay_page_fini(struct replay_page *page);

#endif
