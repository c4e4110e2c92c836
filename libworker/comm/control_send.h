/* Messages to the other ranks over the control sockets: a failure, a goodbye, an arena. Any
 * thread. */
#ifndef COMM_CONTROL_SEND_H
#define COMM_CONTROL_SEND_H

#include <stdbool.h>
#include <stdint.h>

#include "libworker/comm/peer.h"

struct wk_comm;

/* Under fail_lock. */
void control_send_all(struct wk_comm *comm, const struct control_message *message);

/* With the failure, if there was one: the first rank that learns of it may leave before the others
 * do. */
void control_goodbye(struct wk_comm *comm);

/* Send an arena's memory to the ranks of this host. False: a message did not fit its socket. */
bool control_announce(struct wk_comm *comm, uint32_t number, int memory_fd);

#endif
