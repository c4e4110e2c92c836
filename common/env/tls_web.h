/* TLS for sessions that an HTTP library (libmicrohttpd) makes and drives. They get the key of an
 * identity, read again after its file was replaced. They have what a browser or curl needs: TLS
 * 1.3, or 1.2 with forward secrecy, and tickets for resuming. Clients are not asked for a key.
 *
 * A client that uses HTTP without TLS gets an explanation in HTTP.
 *
 * Owned by the HTTP server; its thread calls take and release.
 */
#ifndef ENV_TLS_WEB_H
#define ENV_TLS_WEB_H

#include "common/base/error.h"
#include "common/env/tls_identity.h"

struct tls_web;
struct tls_web_session;

/* `identity` is borrowed. */
int tls_web_new(struct tls_identity *identity, struct tls_web **ret, struct error *err);
void tls_web_free(struct tls_web *web); /* NULL is allowed */

/* `gnutls_session` is a new server session on the socket `fd`, before its handshake. NULL: memory
 * is out, and its handshake will fail. */
struct tls_web_session *tls_web_take(struct tls_web *web, void *gnutls_session, int fd);
/* Call it after the library has freed the session. NULL is allowed. */
void tls_web_release(struct tls_web_session *session);

/* For a library that requires a certificate callback before it makes sessions: it returns none. */
struct gnutls_session_int;
struct gnutls_cert_retr_st;
struct gnutls_pcert_st;
struct gnutls_ocsp_data_st;
struct gnutls_privkey_st;
int tls_web_no_certificate(struct gnutls_session_int *session,
                           const struct gnutls_cert_retr_st *info, struct gnutls_pcert_st **certs,
                           unsigned *certs_length, struct gnutls_ocsp_data_st **ocsp,
                           unsigned *ocsp_length, struct gnutls_privkey_st **key, unsigned *flags);

#endif
