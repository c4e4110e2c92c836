/* TLS 1.3 over buffers: bytes of a connection go in, bytes of the program come out, and the other
 * way round. Sockets are the caller's, so the same session works in a thread of handshakes and on
 * the loop.
 *
 *     tls_feed ──► [ session ] ──► tls_read          tls_write ──► [ session ] ──► tls_out
 *
 * Who is who: a server shows the certificates of its file and asks for one. A client shows its own
 * if it has a file, and accepts a server only if a key it knows (a pin, tls_key.h) signs the chain
 * of the server's certificate up to there, or is its key. Nothing of the program is sent before. A
 * server accepts any key that a client proves to own and tells its pin; what it may do is the
 * program's to judge.
 *
 * A client may resume an earlier session (RFC 8446 2.2) for a third of the work, also with a server
 * that was started again on the same key; what the client proved then still holds. The secret of
 * such tickets follows from the server's key.
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
#include "common/env/tls_key.h"

enum {
    TLS_PINS_MAX = 4,
    TLS_PINS_TEXT_MAX = TLS_PINS_MAX * TLS_PIN_MAX,
    TLS_RESUME_MAX_BYTES = 16 << 10,
};

struct tls_identity; /* a key file, read again when it was replaced */
struct tls_session;

/* `path` NULL: without a key, for clients. A file that is replaced later by one that cannot be read
 * changes nothing. */
int tls_identity_new(const char *path, struct tls_identity **ret, struct error *err);
void tls_identity_free(struct tls_identity *identity); /* sessions may outlive it; NULL is fine */

int tls_server_new(struct tls_identity *identity, struct tls_session **ret, struct error *err);
/* `pins`: those accepted, separated by commas. E_INVALID_ARGUMENT if there is none. */
int tls_client_new(struct tls_identity *identity, const char *pins, struct tls_session **ret,
                   struct error *err);
/* What tls_client_new asks of its pins. */
int tls_check_pins(const char *pins, struct error *err);
void tls_session_free(struct tls_session *session); /* NULL is fine */

/* What a client's next session with the same server may resume this one by: appended to `ret`; 0
 * or E_NOT_FOUND as long as the server gave nothing for it. A secret. */
int tls_client_ticket(struct tls_session *session, struct buf *ret);
/* Before the handshake, with the ticket of a session whose handshake went well: its pins
 * and what its certificates are good for are checked again. What cannot be used is ignored: then
 * the handshake is whole. */
void tls_client_resume(struct tls_session *session, const void *ticket, size_t size);
bool tls_resumed(const struct tls_session *session);

/* Bytes that came; copied. E_RESOURCE_EXHAUSTED. */
int tls_feed(struct tls_session *session, const void *bytes, size_t size);

/* Goes on with what was fed: 1 once it is done, 0 while more must come, or an error: this
 * connection cannot go on, but what tls_out holds still tells the other side why. */
int tls_handshake(struct tls_session *session, struct error *err);

/* After the handshake. How many bytes of the program came, 0 if no more are there now, or an error:
 * E_UNAVAILABLE after an orderly end, else E_DATA_LOSS. */
int64_t tls_read(struct tls_session *session, void *ret, size_t max);
/* All of it, or an error. */
int tls_write(struct tls_session *session, const void *bytes, size_t size);

/* What is to be sent; the caller empties it (buf_clear, buf_fini). */
struct buf *tls_out(struct tls_session *session);

/* Of the key that the other side proved; "" if it showed none. */
const char *tls_peer_pin(const struct tls_session *session);

#endif
