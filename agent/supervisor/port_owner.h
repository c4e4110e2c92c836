/* The user of the program that listens on a TCP port of this machine, by the kernel's table of
 * sockets (/proc/net/tcp and tcp6, proc(5)). No state; any thread. */
#ifndef SUPERVISOR_PORT_OWNER_H
#define SUPERVISOR_PORT_OWNER_H

#include <stdint.h>
#include <sys/types.h>

#include "common/base/error.h"

/* The user of the socket that a connection to 127.0.0.1:`port` reaches. E_NOT_FOUND: no program
 * listens there. Another error: the table cannot be read. */
int port_owner(uint16_t port, uid_t *ret, struct error *err);

#endif
