/* A key and its certificates in memory, as GnuTLS has them. Included by the TLS files only: only
 * they use GnuTLS. A bundle belongs to its caller; any thread. */
#ifndef ENV_TLS_BUNDLE_H
#define ENV_TLS_BUNDLE_H

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "common/base/buf.h"
#include "common/base/error.h"
#include "common/env/tls_file.h"

struct bundle {
    gnutls_x509_privkey_t key;
    gnutls_x509_crt_t all[TLS_CHAIN_MAX];
    unsigned count;
};

/* E_NOT_FOUND, E_DATA_LOSS if it is no such file. */
int bundle_read(const char *path, struct bundle *ret, struct error *err);
void bundle_fini(struct bundle *bundle);
int bundle_put_pem(struct buf *out, gnutls_x509_crt_t certificate); /* GnuTLS' code */
/* The file appears whole, or not at all. */
int bundle_write(const char *path, const struct bundle *bundle, struct error *err);

/* GnuTLS' code. */
int tls_pin_of(gnutls_x509_crt_t certificate, char ret[TLS_PIN_MAX]);

/* Fills `err` with "<what>: <GnuTLS' words>"; returns its code. */
int tls_fail(struct error *err, int rc, const char *what);

#endif
