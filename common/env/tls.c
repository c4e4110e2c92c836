#include "common/env/tls.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/str.h"
#include "common/env/tls_bundle.h"
#include "common/env/tls_credentials.h"
#include "common/env/tls_read.h"

enum {
    RECORD_BYTES = 16384,
    OUT_MAX_BYTES = 96 << 20, /* a message, and what the net layer lets wait */
    HANDSHAKE_MAX_BYTES = 16 << 10,
};

struct tls_session {
    gnutls_session_t tls;
    struct credentials *credentials;
    bool server;
    struct buf in, out;
    size_t in_at;
    bool drained;                 /* the last read took all that was decrypted */
    char pins[TLS_PINS_TEXT_MAX]; /* a client accepts */
    char peer_pin[TLS_PIN_MAX];
};

static ssize_t session_pull(gnutls_transport_ptr_t arg, void *ret, size_t max)
{
    struct tls_session *s = arg;
    size_t size = s->in.size - s->in_at;
    if (size == 0) {
        gnutls_transport_set_errno(s->tls, EAGAIN);
        return -1;
    }
    size = size < max ? size : max;
    memcpy(ret, s->in.data + s->in_at, size);
    s->in_at += size;
    if (s->in_at == s->in.size) {
        buf_fini(&s->in); /* tens of thousands of connections are idle most of the time */
        s->in_at = 0;
    }
    return (ssize_t)size;
}

static int session_pull_timeout(gnutls_transport_ptr_t arg, unsigned wait_ms)
{
    const struct tls_session *s = arg;
    (void)wait_ms; /* missing bytes arrive with the next tls_feed */
    return s->in.size > s->in_at;
}

static ssize_t session_push(gnutls_transport_ptr_t arg, const void *bytes, size_t size)
{
    struct tls_session *s = arg;
    if (!buf_append(&s->out, bytes, size))
        return (ssize_t)size;
    gnutls_transport_set_errno(s->tls, ENOMEM);
    return -1;
}

static int session_start(struct tls_session *s)
{
    int rc = gnutls_init(&s->tls, (s->server ? GNUTLS_SERVER : GNUTLS_CLIENT) | GNUTLS_NONBLOCK);
    if (rc < 0)
        return rc;
    rc = gnutls_priority_set(s->tls, s->credentials->ciphers);
    gnutls_datum_t secret = {s->credentials->tickets, sizeof(s->credentials->tickets)};
    if (!rc && s->server)
        rc = gnutls_session_ticket_enable_server(s->tls, &secret);
    if (!rc)
        rc = gnutls_credentials_set(s->tls, GNUTLS_CRD_CERTIFICATE, s->credentials->all);
    if (!rc && s->server)
        gnutls_certificate_server_set_request(s->tls, GNUTLS_CERT_REQUEST);
    gnutls_handshake_set_max_packet_length(s->tls, HANDSHAKE_MAX_BYTES);
    gnutls_transport_set_ptr(s->tls, s);
    gnutls_transport_set_pull_function(s->tls, session_pull);
    gnutls_transport_set_pull_timeout_function(s->tls, session_pull_timeout);
    gnutls_transport_set_push_function(s->tls, session_push);
    return rc;
}

static int session_new(struct tls_identity *identity, bool server, struct tls_session **ret,
                       struct error *err)
{
    struct tls_session *s = calloc(1, sizeof(*s));
    if (!s)
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory for a connection");
    s->server = server;
    s->credentials = credentials_hold(identity);
    buf_init(&s->in, OUT_MAX_BYTES);
    buf_init(&s->out, OUT_MAX_BYTES);
    int rc = session_start(s);
    if (rc) {
        tls_session_free(s);
        return tls_fail(err, rc, "TLS");
    }
    *ret = s;
    return 0;
}

int tls_server_new(struct tls_identity *identity, struct tls_session **ret, struct error *err)
{
    return session_new(identity, true, ret, err);
}

int tls_check_pins(const char *pins, struct error *err)
{
    struct str rest = str_of(pins), part;
    char pin[TLS_PIN_MAX + 1];
    int count = 0;
    while (str_next(&rest, ',', &part)) {
        (void)str_printf(pin, sizeof(pin), "%.*s",
                         (int)(part.size < TLS_PIN_MAX ? part.size : TLS_PIN_MAX), part.data);
        if (tls_check_pin(pin, err))
            return E_INVALID_ARGUMENT;
        count++;
    }
    if (count >= 1 && count <= TLS_PINS_MAX)
        return 0;
    return error_set(err, E_INVALID_ARGUMENT, "1 to %d fingerprints of the server's key are needed",
                     TLS_PINS_MAX);
}

int tls_client_new(struct tls_identity *identity, const char *pins, struct tls_session **ret,
                   struct error *err)
{
    struct tls_session *s;
    int rc = tls_check_pins(pins, err);
    if (!rc)
        rc = session_new(identity, false, &s, err);
    if (rc)
        return rc;
    (void)str_copy(s->pins, sizeof(s->pins), pins);
    *ret = s;
    return 0;
}

void tls_session_free(struct tls_session *s)
{
    if (!s)
        return;
    if (s->tls)
        gnutls_deinit(s->tls);
    credentials_release(s->credentials);
    buf_fini(&s->in);
    buf_fini(&s->out);
    free(s);
}

int tls_client_ticket(struct tls_session *s, struct buf *ret)
{
    gnutls_datum_t data;
    if (!(gnutls_session_get_flags(s->tls) & GNUTLS_SFLAGS_SESSION_TICKET) ||
        gnutls_session_get_data2(s->tls, &data) < 0)
        return E_NOT_FOUND;
    int rc =
        data.size <= TLS_RESUME_MAX_BYTES ? buf_append(ret, data.data, data.size) : E_NOT_FOUND;
    gnutls_memset(data.data, 0, data.size);
    gnutls_free(data.data);
    return rc;
}

void tls_client_resume(struct tls_session *s, const void *ticket, size_t size)
{
    (void)gnutls_session_set_data(s->tls, ticket, size);
}

bool tls_resumed(const struct tls_session *s)
{
    return gnutls_session_is_resumed(s->tls);
}

int tls_feed(struct tls_session *s, const void *bytes, size_t size)
{
    return buf_append(&s->in, bytes, size);
}

/* The handshake */

static bool is_pinned(const struct tls_session *s, const char *pin)
{
    struct str rest = str_of(s->pins), part;
    while (str_next(&rest, ',', &part))
        if (str_equal(part, str_of(pin)))
            return true;
    return false;
}

static int refuse_certificate(unsigned status, struct error *err)
{
    if (status & (GNUTLS_CERT_EXPIRED | GNUTLS_CERT_NOT_ACTIVATED)) {
        error_set(err, E_UNAUTHENTICATED, "the server's certificate %s",
                  status & GNUTLS_CERT_EXPIRED ? "has expired" : "is not good yet");
        error_hint(err, "compare the clocks of both machines; `muster tls rotate` renews it");
    } else {
        error_set(err, E_UNAUTHENTICATED,
                  "the server's certificate is not signed by the key that it shows");
    }
    return E_UNAUTHENTICATED;
}

/* The signatures of a resumed session were checked when its ticket was made, which is half of a
 * client's computation; its certificates may have expired since. */
static int check_link(const struct tls_session *s, gnutls_x509_crt_t certificate,
                      gnutls_x509_crt_t signer, unsigned *ret_status)
{
    if (!tls_resumed(s))
        return gnutls_x509_crt_verify(certificate, &signer, 1, 0, ret_status);
    bool expired = gnutls_x509_crt_get_expiration_time(certificate) < time(NULL);
    *ret_status = expired ? GNUTLS_CERT_INVALID | GNUTLS_CERT_EXPIRED : 0;
    return 0;
}

/* Each certificate below the known one must be signed by the next and be good today. */
static int check_chain(const struct tls_session *s, gnutls_x509_crt_t *chain, unsigned count,
                       struct error *err)
{
    char pin[TLS_PIN_MAX] = "";
    unsigned status = 0;
    for (unsigned i = 0; i < count; i++) {
        if (tls_pin_of(chain[i], pin))
            break;
        if (is_pinned(s, pin))
            return 0;
        if (i + 1 == count)
            break;
        int rc = check_link(s, chain[i], chain[i + 1], &status);
        if (rc < 0 || status != 0)
            return refuse_certificate(status, err);
    }
    error_set(err, E_UNAUTHENTICATED,
              "what answers there is not the coordinator that is known: its key is %s", pin);
    error_hint(err, "if the coordinator was set up again, use a new token of it; if not, another "
                    "program listens at its address");
    return E_UNAUTHENTICATED;
}

static int take_chain(struct tls_session *s, gnutls_x509_crt_t *ret, unsigned *ret_count)
{
    unsigned sent = 0;
    const gnutls_datum_t *list = gnutls_certificate_get_peers(s->tls, &sent);
    *ret_count = 0;
    for (unsigned i = 0; list && i < sent && i < TLS_CHAIN_MAX; i++) {
        int rc = gnutls_x509_crt_init(&ret[i]);
        if (rc < 0)
            return rc;
        *ret_count = i + 1;
        rc = gnutls_x509_crt_import(ret[i], &list[i], GNUTLS_X509_FMT_DER);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int verify_peer(struct tls_session *s, struct error *err)
{
    gnutls_x509_crt_t chain[TLS_CHAIN_MAX];
    unsigned count;
    int rc = take_chain(s, chain, &count);
    if (!rc && count > 0)
        rc = tls_pin_of(chain[0], s->peer_pin);
    if (rc < 0)
        rc = error_set(err, E_UNAUTHENTICATED, "the other side's certificate cannot be read: %s",
                       gnutls_strerror(rc));
    else if (!s->server && count == 0)
        rc = error_set(err, E_UNAUTHENTICATED, "the server shows no certificate");
    else if (!s->server)
        rc = check_chain(s, chain, count, err);
    for (unsigned i = 0; i < count; i++)
        gnutls_x509_crt_deinit(chain[i]);
    return rc;
}

static int handshake_failed(struct tls_session *s, int rc, struct error *err)
{
    (void)gnutls_alert_send_appropriate(s->tls, rc);
    if (rc == GNUTLS_E_UNEXPECTED_PACKET_LENGTH || rc == GNUTLS_E_UNSUPPORTED_VERSION_PACKET ||
        rc == GNUTLS_E_UNEXPECTED_PACKET || rc == GNUTLS_E_RECORD_OVERFLOW) {
        error_set(err, E_UNAVAILABLE, "what answers there does not speak TLS 1.3");
        error_hint(err, "a coordinator before 0.9 speaks none; else it is another program");
        return E_UNAVAILABLE;
    }
    if (rc == GNUTLS_E_FATAL_ALERT_RECEIVED)
        return error_set(err, E_UNAVAILABLE, "the other side refused TLS: %s",
                         gnutls_alert_get_name(gnutls_alert_get(s->tls)));
    return error_set(err, E_UNAVAILABLE, "TLS: %s", gnutls_strerror(rc));
}

int tls_handshake(struct tls_session *s, struct error *err)
{
    int rc;
    do
        rc = gnutls_handshake(s->tls);
    while (rc == GNUTLS_E_INTERRUPTED ||
           (rc < 0 && !gnutls_error_is_fatal(rc) && rc != GNUTLS_E_AGAIN && s->in.size > s->in_at));
    if (rc < 0 && !gnutls_error_is_fatal(rc))
        return 0;
    if (rc < 0)
        return handshake_failed(s, rc, err);
    rc = verify_peer(s, err);
    if (rc)
        (void)gnutls_alert_send(s->tls, GNUTLS_AL_FATAL, GNUTLS_A_BAD_CERTIFICATE);
    if (rc)
        return rc;
    return 1;
}

/* Bytes of the program */

/* GnuTLS also returns "again" after a message of its own (a ticket), with more available. It is not
 * called without input, because that costs as much as a record. */
int64_t tls_read(struct tls_session *s, void *ret, size_t max)
{
    if (s->in.size == s->in_at && (s->drained || gnutls_record_check_pending(s->tls) == 0))
        return 0;
    for (;;) {
        ssize_t size = gnutls_record_recv(s->tls, ret, max);
        s->drained = size > 0 && (size_t)size < max;
        if (size > 0)
            return size;
        if (size == 0)
            return E_UNAVAILABLE;
        if (size == GNUTLS_E_AGAIN && s->in.size == s->in_at)
            return 0;
        if (gnutls_error_is_fatal((int)size))
            return E_DATA_LOSS;
    }
}

int tls_write(struct tls_session *s, const void *bytes, size_t size)
{
    const char *at = bytes;
    while (size > 0) {
        ssize_t sent = gnutls_record_send(s->tls, at, size < RECORD_BYTES ? size : RECORD_BYTES);
        if (sent == GNUTLS_E_INTERRUPTED)
            continue;
        if (sent <= 0)
            return E_RESOURCE_EXHAUSTED;
        at += sent;
        size -= (size_t)sent;
    }
    return 0;
}

struct buf *tls_out(struct tls_session *s)
{
    return &s->out;
}

const char *tls_peer_pin(const struct tls_session *s)
{
    return s->peer_pin;
}
