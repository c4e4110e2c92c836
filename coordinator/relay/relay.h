/* The open channels, of all jobs. Only in memory: a restart of the coordinator ends them.
 *
 * A channel belongs to the token that opened it and to one start of the agent of its node. Any
 * other caller gets E_NOT_FOUND, in the same words as for an id that never was. Limits are rows of
 * common/base/limits.h.
 *
 * Pure: no clock, no calls out. Owned by the service (api_rpc); loop thread only. A pointer to a
 * channel is valid until relay_forget and relay_sweep.
 */
#ifndef RELAY_RELAY_H
#define RELAY_RELAY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/limits.h"
#include "coordinator/relay/channel.h"

enum {
    RELAY_IDLE_MS = 30 * 60 * 1000, /* the default: no byte in any direction */
    RELAY_LIFE_MS = 24 * 3600 * 1000,
    RELAY_LOST_MS = 15000,    /* without a call of its client */
    RELAY_UNTAKEN_MS = 15000, /* without a first call of its agent */
    RELAY_LINGER_MS = 10000,  /* after its end: the client reads the rest */
    RELAY_MINUTE_MS = 60000,
};

struct relay;

int relay_new(int64_t idle_ms, struct relay **ret, struct error *err); /* 0 = RELAY_IDLE_MS */
void relay_free(struct relay *relay);                                  /* NULL is allowed */

/* True if the job and its tenant may have one more; counted for the tenant's rate. Else *ret_limit
 * is the limit in the way. */
bool relay_has_room(struct relay *relay, const struct channel_wish *wish, int64_t now_ms,
                    enum limit *ret_limit);

/* E_RESOURCE_EXHAUSTED without memory. */
int relay_open(struct relay *relay, const struct channel_wish *wish, const uint8_t *id,
               int64_t now_ms, struct channel **ret, struct error *err);

struct channel *relay_first(const struct relay *relay); /* oldest first; NULL = none */
struct channel *relay_next(const struct relay *relay, const struct channel *channel);

/* NULL for everyone else. */
struct channel *relay_of_owner(const struct relay *relay, const char *id, const char *owner);
struct channel *relay_of_node(const struct relay *relay, const char *id, const char *node,
                              uint64_t incarnation);

/* The client reads no more. */
void relay_forget(struct relay *relay, struct channel *channel);

/* End idle, old, lost and never opened channels. Forget ended ones once they are on record, and
 * read or out of time. False if there are no channels. */
bool relay_sweep(struct relay *relay, int64_t now_ms);

/* A number for the set of channels that this node should have; never 0. Another set has another
 * number, also after a restart. */
uint64_t relay_version(const struct relay *relay, const char *node);
bool relay_wants(const struct channel *channel, const char *node); /* it is in that set */

/* An agent asks: the channels of an earlier start of it are over. True if there were any. */
bool relay_agent_asks(struct relay *relay, const char *node, uint64_t incarnation, int64_t now_ms);

#endif
