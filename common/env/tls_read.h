/* Reads the facts in files of keys and certificates (tls_file.h). Any thread. */
#ifndef ENV_TLS_READ_H
#define ENV_TLS_READ_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "common/base/buf.h"
#include "common/base/error.h"
#include "common/env/tls_file.h"

struct tls_facts {
    char pin[TLS_PIN_MAX];    /* of the file's own key */
    char first[TLS_PIN_MAX];  /* of the first certificate's key: normally the same */
    char signer[TLS_PIN_MAX]; /* of the certificate that signs the first: what clients know */
    int64_t expires_wall_ms;  /* of the first certificate */
    int certificates;
};

/* The facts in one of these files. E_NOT_FOUND, E_DATA_LOSS if it is invalid. */
int tls_read_facts(const char *path, struct tls_facts *ret, struct error *err);

/* The cluster key that servers stop showing when the cluster has yet another new one. */
struct tls_oldest {
    char pin[TLS_PIN_MAX];
    int64_t until_wall_ms; /* tokens made later also know a newer key */
};

/* E_NOT_FOUND: then all keys are still shown. */
int tls_read_oldest(const char *cluster_path, struct tls_oldest *ret, struct error *err);

/* True if the first certificate of a file has all these names; false if it is unreadable. */
bool tls_has_names(const char *path, const char *const *names);
/* The names and addresses of the first certificate, separated by ", ". */
int tls_read_names(const char *path, struct buf *ret, struct error *err);

/* The certificates with which a browser or curl can check the server: those in the file that sign
 * its first one, in PEM. E_NOT_FOUND if there are none. */
int tls_read_authorities(const char *path, struct buf *ret, struct error *err);

/* True if the file is another one than `was` describes; then `ret` (not NULL) describes it. */
bool tls_file_replaced(const char *path, const struct stat *was, struct stat *ret);

/* 0 for exactly TLS_PIN_LENGTH characters of base64url. */
int tls_check_pin(const char *pin, struct error *err);

#endif
