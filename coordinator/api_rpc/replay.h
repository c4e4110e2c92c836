/* A page of the state as it was when an event was the newest, as messages. Reads the store only: no
 * running coordinator is needed. Any one thread.
 */
#ifndef API_RPC_REPLAY_H
#define API_RPC_REPLAY_H

#include "common/base/arena.h"
#include "coordinator/store/store.h"
#include "proto/client.pb-c.h"

enum { REPLAY_PAGE_MAX = STORE_PAST_PAGE_MAX };

struct replay_page {
    Muster__ReplayAnswer answer; /* borrows the rest */
    struct arena arena;
    struct job *jobs[REPLAY_PAGE_MAX];
    ProtobufCMessage *specs[REPLAY_PAGE_MAX];
    int jobs_count;
};

/* E_OUT_OF_RANGE for an event whose state cannot be rebuilt, E_INVALID_ARGUMENT for a cursor that
 * is none. On failure too the page is to be finished. */
int replay_page_read(struct store *store, const Muster__ReplayRequest *request,
                     struct replay_page *ret, struct error *err);
void replay_page_fini(struct replay_page *page);

#endif
