/* The content of an identity's file, as sessions use it. Included by the TLS files only. */
#ifndef ENV_TLS_CREDENTIALS_H
#define ENV_TLS_CREDENTIALS_H

#include <stdatomic.h>
#include <stdint.h>

#include <gnutls/gnutls.h>

#include "common/base/sha256.h"

struct tls_identity;

enum {
    TICKETS_BYTES = 2 * SHA256_BYTES, /* as gnutls_session_ticket_enable_server requires */
};

/* Lives as long as a session uses it. */
struct credentials {
    atomic_int users;
    gnutls_certificate_credentials_t all;
    gnutls_priority_t ciphers;      /* parsed once, because it is a long text */
    uint8_t tickets[TICKETS_BYTES]; /* secret of a server's */
    uint8_t web_tickets[TICKETS_BYTES];
};

/* The newest; any thread. Release it by credentials_release, which accepts NULL. */
struct credentials *credentials_hold(struct tls_identity *identity);
void credentials_release(struct credentials *credentials);

#endif
