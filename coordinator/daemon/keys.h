/* The coordinator's keys on disk (common/env/tls_key.h): found, made at the first start, renewed in
 * time.
 *
 *       DATA/cluster.pem   made at the first start; its pin is added to every token
 *       DATA/server.pem    signed by it; renewed TLS_RENEW_DAYS before its end, also while it runs
 *
 * With the administrator's own file (key and certificates in one PEM file) neither is made. The pin
 * is that of the file's key: a renewed certificate should keep its key.
 */
#ifndef DAEMON_KEYS_H
#define DAEMON_KEYS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "common/base/error.h"
#include "common/env/tls_key.h"

struct keys {
    char server[PATH_MAX];    /* the file that listeners show */
    char cluster[PATH_MAX];   /* "" = the administrator's own file is used */
    const char *const *names; /* for the certificate, ended by NULL; borrowed */
    char pin[TLS_PIN_MAX];
    int64_t expires_wall_ms;
    struct stat read; /* of the server's file, when these facts were read */
};

struct keys_options {
    const char *data_dir;
    const char *own;          /* file to use instead; NULL: those of the data folder */
    const char *const *names; /* host names in browsers (tls_make_server_key); NULL: any */
};

/* Make missing keys, and renew a certificate that ends soon or lacks names. 1, with `err` filled:
 * that was impossible, but the key is still valid. */
int keys_open(const struct keys_options *options, int64_t wall_ms, struct keys *ret,
              struct error *err);

/* Call it from time to time. Renews a certificate that ends soon or lacks names; 1 if it did. An
 * administrator's own file is read again. */
int keys_renew(struct keys *keys, int64_t wall_ms, struct error *err);

/* True if the certificate has all of the names; an administrator's own may not. */
bool keys_have_names(const struct keys *keys);

/* True if the server's file was replaced: then keys_renew reads it again. */
bool keys_replaced(const struct keys *keys);

#endif
