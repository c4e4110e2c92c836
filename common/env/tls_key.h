/* Keys and certificates as files, and the pins that identify them.
 *
 *     cluster.pem   cluster key + its own certificate: the identity of a cluster; signs server keys
 *     server.pem    server key + its certificate + those of the cluster key: what a listener shows
 *     node.pem      a node's key + its own certificate: an agent proves its identity with it
 *
 * A pin is the SHA-256 of a public key (SubjectPublicKeyInfo) in base64url, as in RFC 7469. It
 * identifies a key in any certificate, so renewing certificates changes no pin. Keys are ECDSA on
 * P-256. Files have mode 0600 and are replaced by rename: readers see the old one or the new one.
 * Any thread.
 */
#ifndef ENV_TLS_KEY_H
#define ENV_TLS_KEY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "common/base/buf.h"
#include "common/base/error.h"

enum {
    TLS_CHAIN_MAX = 4,  /* certificates of one file */
    TLS_NAMES_MAX = 64, /* names of one certificate */
    TLS_NAME_MAX = 256,
    TLS_PIN_LENGTH = 43,
    TLS_PIN_MAX = TLS_PIN_LENGTH + 1,
    TLS_FILE_MAX_BYTES = 64 << 10,
    TLS_SERVER_DAYS = 398,   /* a year of uptime and a month; renewed long before */
    TLS_BACKDATED_S = 86400, /* certificates begin this long before they were made, because clocks
                              * differ */
    TLS_RENEW_DAYS = 60,     /* a certificate with less time left is renewed */
};

/* Make a cluster key at `path`. `old` is the file of the key it replaces: the old key also signs
 * the new certificate, so that clients that know the old pin accept it. */
int tls_make_cluster_key(const char *path, const char *old, struct error *err);

/* Make a server key at `path`, signed by the cluster key and valid for TLS_SERVER_DAYS from now.
 * `names`: host names and addresses for browsers, ended by NULL. NULL: those of the present
 * certificate at `path`, if there is one. */
int tls_make_server_key(const char *path, const char *cluster_path, const char *const *names,
                        struct error *err);

/* Make a key for one node at `path`; its certificate has `name` for people to read. */
int tls_make_node_key(const char *path, const char *name, struct error *err);

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
