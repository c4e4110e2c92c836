#include "common/env/tls_web.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <gnutls/abstract.h>

#include "common/env/tls_bundle.h"
#include "common/env/tls_credentials.h"

enum { RECORD_OF_HANDSHAKE = 22, HANDSHAKE_MAX_BYTES = 16 << 10, DISCARD_BYTES = 16 << 10 };

static const char ciphers[] =
    "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-CIPHER-ALL:+AES-128-GCM:+AES-256-GCM:"
    "+CHACHA20-POLY1305:-KX-ALL:+ECDHE-ECDSA:+ECDHE-RSA:"
    "-GROUP-ALL:+GROUP-X25519:+GROUP-SECP256R1:+GROUP-SECP384R1:%SERVER_PRECEDENCE";

static const char refusal[] = "HTTP/1.1 400 Bad Request\r\n"
                              "Content-Type: text/plain\r\n"
                              "Content-Length: 58\r\n"
                              "Connection: close\r\n\r\n"
                              "this port speaks HTTPS: ask for https://, not for http://\n";

struct tls_web {
    struct tls_identity *identity;
    gnutls_priority_t ciphers;
};

struct tls_web_session {
    struct credentials *credentials;
    int fd;
    bool begun;
};

int tls_web_new(struct tls_identity *identity, struct tls_web **ret, struct error *err)
{
    struct tls_web *web = calloc(1, sizeof(*web));
    if (!web)
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory for TLS");
    web->identity = identity;
    int rc = gnutls_priority_init(&web->ciphers, ciphers, NULL);
    if (rc < 0) {
        free(web);
        return tls_fail(err, rc, "TLS");
    }
    *ret = web;
    return 0;
}

void tls_web_free(struct tls_web *web)
{
    if (!web)
        return;
    gnutls_priority_deinit(web->ciphers);
    free(web);
}

/* Read the arrived part of the request: closing a socket with unread bytes resets the connection,
 * and the answer is lost. */
static ssize_t refuse_plain(const struct tls_web_session *s, uint8_t first)
{
    char discarded[DISCARD_BYTES];
    if (first >= 'A' && first <= 'Z' && recv(s->fd, discarded, sizeof(discarded), 0) > 0)
        (void)send(s->fd, refusal, sizeof(refusal) - 1, MSG_NOSIGNAL);
    errno = ECONNRESET;
    return -1;
}

static ssize_t web_pull(gnutls_transport_ptr_t arg, void *ret, size_t max)
{
    struct tls_web_session *s = arg;
    uint8_t first;
    if (!s->begun && recv(s->fd, &first, 1, MSG_PEEK) == 1) {
        if (first != RECORD_OF_HANDSHAKE)
            return refuse_plain(s, first);
        s->begun = true;
    }
    return recvfrom(s->fd, ret, max, 0, NULL, NULL);
}

static int web_pull_timeout(gnutls_transport_ptr_t arg, unsigned wait_ms)
{
    (void)arg;
    (void)wait_ms; /* the socket does not block: a read decides */
    return 1;
}

struct tls_web_session *tls_web_take(struct tls_web *web, void *gnutls_session, int fd)
{
    gnutls_session_t tls = gnutls_session;
    struct tls_web_session *s = calloc(1, sizeof(*s));
    if (!s)
        return NULL;
    s->fd = fd;
    s->credentials = credentials_hold(web->identity);
    gnutls_datum_t secret = {s->credentials->web_tickets, sizeof(s->credentials->web_tickets)};
    int rc = gnutls_priority_set(tls, web->ciphers);
    if (!rc)
        rc = gnutls_session_ticket_enable_server(tls, &secret);
    if (!rc)
        rc = gnutls_credentials_set(tls, GNUTLS_CRD_CERTIFICATE, s->credentials->all);
    if (rc < 0) {
        gnutls_credentials_clear(tls);
        tls_web_release(s);
        return NULL;
    }
    int on = 1; /* a handshake is several small writes */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    gnutls_certificate_server_set_request(tls, GNUTLS_CERT_IGNORE);
    gnutls_handshake_set_max_packet_length(tls, HANDSHAKE_MAX_BYTES);
    gnutls_transport_set_ptr2(tls, s, gnutls_transport_get_ptr(tls));
    gnutls_transport_set_pull_function(tls, web_pull);
    gnutls_transport_set_pull_timeout_function(tls, web_pull_timeout);
    return s;
}

void tls_web_release(struct tls_web_session *session)
{
    if (!session)
        return;
    credentials_release(session->credentials);
    free(session);
}

int tls_web_no_certificate(struct gnutls_session_int *session,
                           const struct gnutls_cert_retr_st *info, struct gnutls_pcert_st **certs,
                           unsigned *certs_length, struct gnutls_ocsp_data_st **ocsp,
                           unsigned *ocsp_length, struct gnutls_privkey_st **key, unsigned *flags)
{
    (void)session;
    (void)info;
    (void)certs;
    (void)certs_length;
    (void)ocsp;
    (void)ocsp_length;
    (void)key;
    (void)flags;
    return -1;
}
