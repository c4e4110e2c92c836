/* Keys and certificates as files, and the pins they are known by.
 *
 *     cluster.pem   cluster key + its own certificate: the identity of a cluster; signs server keys
 *     server.pem    server key + its certificate + those of the cluster key: what a listener shows
 *     node.pem      a node's key + its own certificate: what an agent proves itself with
 *
 * A pin is the SHA-256 of a public key (SubjectPublicKeyInfo) in base64url, as RFC 7469 takes it.
 * It names a key whatever certificate carries it, so renewing certificates changes no pin. Keys are
 * ECDSA on P-256. Files have mode 0600 and are replaced by rename: readers see the old one or the
 * new one. Any thread.
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
    TLS_BACKDATED_S = 86400, /* certificates begin earlier than they were made: clocks differ */
    TLS_RENEW_DAYS = 60,     /* that a certificate must still be good for, else it is renewed */
};

/* Makes a cluster key at `path`. With `old`, the file of the key that it takes over from, the new
 * certificate is signed by the old key too, so that clients that know the old pin accept it. */
int tls_make_cluster_key(const char *path, const char *old, struct error *err);

/* Makes a server key at `path`, signed by the cluster key; good for TLS_SERVER_DAYS from now.
 * `names`: host names and addresses that browsers reach it by, ended by NULL. NULL: those of the
 * certificate that is at `path`, if there is one. */
int tls_make_server_key(const char *path, const char *cluster_path, const char *const *names,
                        struct error *err);

/* Makes a key for one node at `path`; `name` is in its certificate for people to read. */
int tls_make_node_key(const char *path, const char *name, struct error *err);

struct tls_facts {
    char pin[TLS_PIN_MAX];    /* of the file's own key */
    char first[TLS_PIN_MAX];  /* of the first certificate's key: differs if the file is mixed up */
    char signer[TLS_PIN_MAX]; /* of the certificate that signs the first: what clients know */
    int64_t expires_wall_ms;  /* of the first certificate */
    int certificates;
};

/* What a file of the above holds. E_NOT_FOUND, E_DATA_LOSS if it cannot be read as such. */
int tls_read_facts(const char *path, struct tls_facts *ret, struct error *err);

/* The cluster key that servers show no longer once the cluster has another new one. */
struct tls_oldest {
    char pin[TLS_PIN_MAX];
    int64_t until_wall_ms; /* tokens of after that know a newer key, too */
};

/* E_NOT_FOUND: each is shown still then. */
int tls_read_oldest(const char *cluster_path, struct tls_oldest *ret, struct error *err);

/* Whether the first certificate of a file names all of them; false if it cannot be read. */
bool tls_has_names(const char *path, const char *const *names);
/* The names and addresses of the first certificate, separated by ", ". */
int tls_read_names(const char *path, struct buf *ret, struct error *err);

/* What a browser or curl is given to know the server by: the certificates of the file that sign its
 * first one, in PEM. E_NOT_FOUND if it has none. */
int tls_read_authorities(const char *path, struct buf *ret, struct error *err);

/* Whether the file is another one than `was` describes; then `ret` (not NULL) describes it. */
bool tls_file_replaced(const char *path, const struct stat *was, struct stat *ret);

/* True for exactly TLS_PIN_LENGTH characters of base64url. */
int tls_check_pin(const char *pin, struct error *err);

#endif
