/* The agent's name, folder, socket and address. Reads the machine; plain results. */
#ifndef AGENT_PLACE_H
#define AGENT_PLACE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/arena.h"
#include "common/base/error.h"
#include "common/base/name.h"

/* sun_path has 108 bytes; NNG adds nothing. */
enum { PLACE_SOCKET_MAX = 100, PLACE_INTERFACE_BYTES = 16 /* IF_NAMESIZE */ };

/* The host's name up to its first dot, in the letters that node names allow. */
int place_name(char ret[NAME_LENGTH_MAX + 1], struct error *err);

/* 0 if a node may have this name. */
int place_check_name(const char *name, struct error *err);

/* "ipc://DIR/hub.sock". If DIR is too long for a socket or closed to the workers' user, the socket
 * is in the runtime folder (which is made). */
int place_hub_url(const char *dir, bool other_user, char *ret, size_t size, struct error *err);

/* Sockets for the reports of workers stand beside the hub's: "DIR/hub-" and a name of 12. */
void place_report_prefix(const char *hub_url, char ret[PLACE_SOCKET_MAX]);

/* The address of this machine on the route to the coordinator; 127.0.0.1 for ipc:// and loopback.
 */
int place_address(const char *coordinator_url, char *ret, size_t size, struct error *err);

/* This machine's network interface with that address; "" = none has it, or it is a name. */
void place_interface(const char *address, char ret[PLACE_INTERFACE_BYTES]);

/* The part of the agent's environment that workers inherit: NULL-terminated "NAME=value" in
 * `arena`, smaller if they run as other users. It never contains secrets of the agent. */
const char *const *place_environment(bool other_user, struct arena *arena);

#endif
