/* env.net of real programs: tcp://, tls+tcp:// and ipc:// addresses (net_url.h).
 *
 * Listeners are our own (net_listener.h), and so are dialers of tls+tcp:// (net_tls_dialer.h).
 * Dialers of tcp:// and ipc:// are REQ sockets of NNG 1.5.2, used only by the net_nng files; we
 * number and time their messages ourselves. NNG's threads only append to an inbox and wake the
 * loop: our callbacks run only on the loop thread. Its sockets are opened once and live as long as
 * the process, because closing one in use can deadlock in 1.5.2. A closed dialer becomes silent and
 * keeps its memory.
 */
#ifndef ENV_NET_OS_H
#define ENV_NET_OS_H

#include "common/base/error.h"
#include "common/env/env.h"

struct loop;

/* `loop` is borrowed; `ret` is usable until net_os_fini. */
int net_os_init(struct net *ret, struct loop *loop, struct error *err);

/* Silence everything: no callback and no post to the loop follows. Accepts a zeroed net. */
void net_os_fini(struct net *net);

/* The same for a program that dials only addresses of its own machine, as libworker does: without
 * listeners and TLS, and so without their libraries. */
int net_local_init(struct net *ret, struct loop *loop, struct error *err);
void net_local_fini(struct net *net);

#endif
