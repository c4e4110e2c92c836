/* Shared by the TLS files; only they use GnuTLS. */
#ifndef ENV_TLS_INTERNAL_H
#define ENV_TLS_INTERNAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "common/base/error.h"
#include "common/base/sha256.h"
#include "common/env/tls.h"
#include "common/env/tls_key.h"

enum {
    TICKETS_BYTES = 2 * SHA256_BYTES, /* as gnutls_session_ticket_enable_server requires */
};

/* The content of an identity's file; lives as long as a session uses it. */
struct credentials {
    atomic_int users;
    gnutls_certificate_credentials_t all;
    gnutls_priority_t ciphers;      /* parsed once, because it is a long text */
    uint8_t tickets[TICKETS_BYTES]; /* secret of a server's */
    uint8_t web_tickets[TICKETS_BYTES];
};

/* The newest; any thread. Release it by credentials_release, which accepts NULL. */
struct credentials *credentials_take(struct tls_identity *identity);
void credentials_release(struct credentials *credentials);

/* A key and its certificates. */
struct bundle {
    gnutls_x509_privkey_t key;
    gnutls_x509_crt_t all[TLS_CHAIN_MAX];
    unsigned count;
};

int bundle_read(const char *path, struct bundle *ret, struct error *err);
void bundle_fini(struct bundle *bundle);
int bundle_put_pem(struct buf *out, gnutls_x509_crt_t certificate); /* GnuTLS' code */

/* GnuTLS' code. */
int tls_pin_of(gnutls_x509_crt_t certificate, char ret[TLS_PIN_MAX]);

/* Fills `err` with "<what>: <GnuTLS' words>"; returns its code. */
int tls_fail(struct error *err, int rc, const char *what);

#endif
