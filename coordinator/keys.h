/* The coordinator's keys on disk (common/env/tls_key.h): found, made at the first start, renewed in
 * time.
 *
 *     DATA/cluster.pem   made at the first start; its pin goes out with every token
 *     DATA/server.pem    signed by it; renewed TLS_RENEW_DAYS before its end, also while it runs
 *
 * With a file of the administrator's own (key and certificates in one PEM file) neither is made,
 * and the pin is that of the file's key: a renewed certificate should keep its key.
 */
#ifndef COORDINATOR_KEYS_H
#define COORDINATOR_KEYS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "common/base/error.h"
#include "common/env/tls_key.h"

struct keys {
    char server[PATH_MAX];  /* the file that listeners show */
    char cluster[PATH_MAX]; /* "" = the administrator's own file is used */
    char pin[TLS_PIN_MAX];
    int64_t expires_wall_ms;
    struct stat read; /* of the server's file, when these facts were read from it */
};

/* `own` NULL: those of the data folder. Makes what is missing. */
int keys_open(const char *data_dir, const char *own, int64_t wall_ms, struct keys *ret,
              struct error *err);

/* Once in a while: renews what ends soon; 1 if it did. An administrator's own file is read again.
 */
int keys_renew(struct keys *keys, int64_t wall_ms, struct error *err);

/* Whether the server's file is another one since: then keys_renew reads it again. */
bool keys_replaced(const struct keys *keys);

#endif
