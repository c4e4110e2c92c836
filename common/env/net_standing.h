/* Limits for peers of a listener by their standing: incomplete messages, unread answers, places.
 * When the sum of one standing is used up, the address that uses most of it loses its largest
 * connection, so that a new peer does not pay for a greedy one. Callers lose nothing to strangers,
 * and agents nothing to callers. Included by the files of the listener only; loop thread. */
#ifndef ENV_NET_STANDING_H
#define ENV_NET_STANDING_H

#include "common/env/net_listener_state.h"

/* A new peer is a stranger at its address; false if memory is out. */
bool standing_enter(struct peer *peer);
void standing_leave(struct peer *peer);
void standing_change(struct peer *peer, enum net_standing to);

/* Call after each change of `received` or `unsent`. */
void standing_count(struct peer *peer);

/* True if this peer may store `more` bytes of a message. Others may be disconnected for it. */
bool standing_may_receive(struct peer *peer, size_t more);
/* True if it may leave `more` bytes of answers unread. */
bool standing_may_leave_unread(struct peer *peer, size_t more);

/* The number of peers for which the process has descriptors. */
size_t standing_peers_max(void);
/* Disconnect the oldest stranger of the address with the most strangers; false: there is none. */
bool standing_evict_stranger(struct sp_listener *listener);

#endif
