/* What the files of TLS share; the only ones that know GnuTLS. */
#ifndef ENV_TLS_INTERNAL_H
#define ENV_TLS_INTERNAL_H

#include <stdbool.h>

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "common/base/error.h"
#include "common/env/tls_key.h"

enum { TLS_CHAIN_MAX = 4 }; /* certificates that one side may show */

/* GnuTLS' code. */
int tls_pin_of(gnutls_x509_crt_t certificate, char ret[TLS_PIN_MAX]);

/* Fills `err` with "<what>: <GnuTLS' words>"; returns its code. */
int tls_fail(struct error *err, int rc, const char *what);

#endif
