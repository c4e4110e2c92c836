/* env.net over NNG 1.5.2, the only files that know NNG: tcp://, tls+tcp:// and ipc:// urls.
 *
 * Dialers are REQ sockets whose messages we number and time ourselves. Listeners speak to them
 * without NNG (net_listener.h), but with TLS they are REP sockets with one context per request in
 * flight. NNG's threads only append to an inbox and wake the loop:
 * no callback of ours runs anywhere but on the loop thread. Sockets are opened once and live as
 * long as the process, because closing one that is in use can deadlock in 1.5.2; a closed listener
 * or dialer goes silent and keeps its memory.
 *
 * TLS is set up by the url's query: listeners need ?cert=FILE (certificate and key in one PEM
 * file), dialers ?ca=FILE (whom to trust). The server must prove the url's host, or another
 * &name=NAME: a name, since mbedTLS 2.28 matches no addresses in certificates. Not for long-lived
 * services with 1.5.2: the loss of a TLS connection can leave NNG's clean-up thread waiting for
 * ever, and then nothing reconnects and no loss is told. A tunnel (WireGuard, ssh) around tcp://
 * has no such flaw.
 */
#ifndef ENV_NET_NNG_H
#define ENV_NET_NNG_H

#include "common/base/error.h"
#include "common/env/env.h"

struct loop;

/* `loop` is borrowed; `ret` is usable until net_nng_fini. */
int net_nng_init(struct net *ret, struct loop *loop, struct error *err);

/* Silences everything: no callback and no post to the loop after it. Accepts a zeroed net. */
void net_nng_fini(struct net *net);

#endif
