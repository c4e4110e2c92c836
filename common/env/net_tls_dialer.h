/* Dialing tls+tcp:// addresses on the loop's own thread, in the bytes that net_listener reads: the
 * "SP" mapping inside TLS 1.3. NNG's own TLS (mbedTLS 2.28) has no TLS 1.3 and takes no pins, and
 * the loss of such a connection can end NNG 1.5.2's reconnecting (docs/adr/0012).
 *
 *     idle ─► resolving ─► connecting ─► proving (TLS) ─► greeting ─► connected
 *       ▲         └────────────┴──────────────┴───────────────┴───────────┘ lost, refused, too slow
 *       └── 50 ms to 1 s, jittered
 *
 * As net.dial and net.call say. Loop thread only; names are resolved beside it.
 */
#ifndef ENV_NET_TLS_DIALER_H
#define ENV_NET_TLS_DIALER_H

#include <stdint.h>

#include "common/env/net.h"

struct loop;
struct net_address;
struct tls_dialer;

/* E_INVALID_ARGUMENT without pins, or what is wrong with the key's file. */
int tls_dialer_new(struct loop *loop, const struct net_address *address, struct tls_dialer **ret,
                   struct error *err);
int tls_dialer_call(struct tls_dialer *dialer, const void *bytes, size_t size, int64_t timeout_ms,
                    net_answer_fn on_answer, void *arg, struct error *err);
/* Why it is not connected: the last failure, 0 and untouched if there was none since it was. */
int tls_dialer_problem(const struct tls_dialer *dialer, struct error *ret);
/* Completes open calls with E_CANCELLED; no callback after it. */
void tls_dialer_close(struct tls_dialer *dialer);
void tls_dialer_free(struct tls_dialer *dialer); /* closes it; NULL is fine */

#endif
