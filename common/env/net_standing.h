/* What peers of a listener may hold by their standing: messages that are not whole, answers they do
 * not read, places. When the sum of one standing is used up, the address that holds the most of it
 * loses its largest holder, so that a newcomer does not pay for a hog, and strangers take nothing
 * from callers, nor callers from agents. Included by the files of the listener only; loop thread.
 */
#ifndef ENV_NET_STANDING_H
#define ENV_NET_STANDING_H

#include "common/env/net_listener_internal.h"

/* A new peer is a stranger at its address; false without memory. */
bool standing_enter(struct peer *peer);
void standing_leave(struct peer *peer);
void standing_change(struct peer *peer, enum net_standing to);

/* After each change of what is received, or unsent. */
void standing_count(struct peer *peer);

/* May this peer hold so many more bytes of a message? Others may lose theirs for it. */
bool standing_half_room(struct peer *peer, size_t more);
/* May it leave so many more bytes of answers unread? */
bool standing_unsent_room(struct peer *peer, size_t more);

/* How many peers the process has descriptors for. */
size_t standing_places(void);
/* The address with the most strangers loses the one that has been there longest; false: there are
 * none. */
bool standing_make_room(struct sp_listener *listener);

#endif
