/* Dials tls+tcp:// addresses on the loop's own thread, in the format of net_listener: the "SP"
 * mapping inside TLS 1.3. NNG's own TLS (mbedTLS 2.28) has neither TLS 1.3 nor pins, and a lost
 * connection can end NNG 1.5.2's reconnecting (docs/adr/0012).
 *
 *     idle ─► resolving ─► connecting ─► proving (TLS) ─► greeting ─► connected
 *       ▲         └────────────┴──────────────┴───────────────┴───────────┘ lost, refused, too slow
 *       └── 50 ms to 1 s, jittered
 *
 * The functions are as net.dial and net.call. Loop thread only; names are resolved on a side
 * thread.
 */
#ifndef ENV_NET_TLS_DIALER_H
#define ENV_NET_TLS_DIALER_H

#include <stdint.h>

#include "common/env/net.h"

struct loop;
struct net_address;
struct tls_dialer;

/* E_INVALID_ARGUMENT without pins, or the error in the key's file. */
int tls_dialer_new(struct loop *loop, const struct net_address *address, struct tls_dialer **ret,
                   struct error *err);
int tls_dialer_call(struct tls_dialer *dialer, const void *bytes, size_t size, int64_t timeout_ms,
                    net_answer_fn on_answer, void *arg, struct error *err);
/* The cause if it is not connected: the last failure; 0 with `ret` unchanged if there was none
 * since the last connection. */
int tls_dialer_problem(const struct tls_dialer *dialer, struct error *ret);
/* Complete open calls with E_CANCELLED; no callbacks follow. */
void tls_dialer_close(struct tls_dialer *dialer);
void tls_dialer_free(struct tls_dialer *dialer); /* closes it; NULL is allowed */

#endif
