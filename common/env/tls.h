/* TLS 1.3 over buffers: encrypted bytes go in and plain bytes out, and the reverse. The caller owns
 * the sockets, so the same session works in a handshake thread and on the loop.
 *
 *       tls_feed ──► [ session ] ──► tls_read          tls_write ──► [ session ] ──► tls_out
 *
 * Identity: a server shows the certificates of its file and requests one. A client shows its own if
 * it has a file. It accepts a server only if a key it knows (a pin, tls_file.h) is the key of the
 * server's certificate or signs its chain. No data of the program is sent before that. A server
 * accepts any key that a client proves to own and reports its pin; the program decides what it may
 * do.
 *
 * A client may resume an earlier session (RFC 8446 2.2) for a third of the work, also with a server
 * that was restarted with the same key. The client's proof of then stays valid. The secret of such
 * tickets is derived from the server's key.
 *
 * Identities are shared between threads; a session belongs to one thread at a time.
 */
#ifndef ENV_TLS_H
#define ENV_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/error.h"
#include "common/env/tls_file.h"
#include "common/env/tls_identity.h"

enum {
    TLS_PINS_MAX = 4,
    TLS_PINS_TEXT_MAX = TLS_PINS_MAX * TLS_PIN_MAX,
    TLS_RESUME_MAX_BYTES = 16 << 10,
};

struct tls_session;

int tls_server_new(struct tls_identity *identity, struct tls_session **ret, struct error *err);
/* `pins`: the accepted ones, separated by commas. E_INVALID_ARGUMENT if there is none. */
int tls_client_new(struct tls_identity *identity, const char *pins, struct tls_session **ret,
                   struct error *err);
/* The check of pins in tls_client_new. */
int tls_check_pins(const char *pins, struct error *err);
void tls_session_free(struct tls_session *session); /* NULL is allowed */

/* Append to `ret` the ticket with which the client's next session with this server can resume this
 * one. 0, or E_NOT_FOUND until the server has sent one. A secret. */
int tls_client_ticket(struct tls_session *session, struct buf *ret);
/* Call it before the handshake, with the ticket of a session with a complete handshake. The pins
 * and the validity of its certificates are checked again. An unusable ticket is ignored, and the
 * handshake is a full one. */
void tls_client_resume(struct tls_session *session, const void *ticket, size_t size);
bool tls_resumed(const struct tls_session *session);

/* Bytes from the socket; copied. E_RESOURCE_EXHAUSTED. */
int tls_feed(struct tls_session *session, const void *bytes, size_t size);

/* Process the bytes fed so far: 1 when done, 0 if more must arrive, or an error. After an error the
 * connection is unusable, but tls_out may have an alert for the other side. */
int tls_handshake(struct tls_session *session, struct error *err);

/* After the handshake. Returns the number of plain bytes, 0 if no more are here now, or an error:
 * E_UNAVAILABLE after an orderly end, else E_DATA_LOSS. */
int64_t tls_read(struct tls_session *session, void *ret, size_t max);
/* All of it, or an error. */
int tls_write(struct tls_session *session, const void *bytes, size_t size);

/* Bytes to send; the caller empties it (buf_clear, buf_fini). */
struct buf *tls_out(struct tls_session *session);

/* Of the key that the other side proved; "" if none. */
const char *tls_peer_pin(const struct tls_session *session);

#endif
