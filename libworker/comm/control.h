/* Notices ranks that died, failed or left. Every pair of ranks has a socket only for this,
 * so the end of a process is an end of file at all others at once, whatever they wait for. Any
 * thread. */
#ifndef COMM_CONTROL_H
#define COMM_CONTROL_H

struct wk_comm;

/* Read the messages of rank `peer` on its control socket. Marks it left or dead, maps its arenas,
 * may fail the communicator. */
void control_read(struct wk_comm *comm, int peer);
void control_sweep(struct wk_comm *comm); /* of all ranks */

/* The same, and whether processes of this host have ended: a child of a rank may keep its sockets
 * open. For a look while nothing waits. */
void control_look(struct wk_comm *comm);

/* As if its pidfd had reported it: the peer's process has ended. */
void control_process_ended(struct wk_comm *comm, int peer);

#endif
