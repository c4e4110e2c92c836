/* Where this agent lives: its name, its folder, its socket, its address. Reads the machine; plain
 * results.
 */
#ifndef AGENT_PLACE_H
#define AGENT_PLACE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/arena.h"
#include "common/base/error.h"

/* sun_path holds 108 bytes; NNG adds nothing. */
enum { PLACE_SOCKET_MAX = 100, PLACE_NAME_MAX = 63 };

/* The host's name up to its first dot, in the letters a node may have. */
int place_name(char ret[PLACE_NAME_MAX + 1], struct error *err);

/* May a node be called so? */
int place_check_name(const char *name, struct error *err);

/* "ipc://DIR/hub.sock", or in the runtime folder (made) if DIR is too long for a socket or not open
 * to the workers' user. */
int place_hub_url(const char *dir, bool other_user, char *ret, size_t size, struct error *err);

/* The address of this machine on the way to the coordinator; 127.0.0.1 for ipc:// and loopback. */
int place_address(const char *coordinator_url, char *ret, size_t size, struct error *err);

/* What workers inherit of our environment: NULL-terminated "NAME=value" in `arena`; less where they
 * run as other users. Secrets of the agent are not among them. */
const char *const *place_environment(bool other_user, struct arena *arena);

#endif
