#include "common/env/tls_identity.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "common/base/sha256.h"
#include "common/env/tls_bundle.h"
#include "common/env/tls_credentials.h"
#include "common/env/tls_read.h"

enum { LOOK_AGAIN_S = 1 }; /* whether the file was replaced */

static const char ciphers[] =
    "NORMAL:-VERS-ALL:+VERS-TLS1.3:-CIPHER-ALL:+AES-128-GCM:+AES-256-GCM:+CHACHA20-POLY1305:"
    "-GROUP-ALL:+GROUP-X25519:+GROUP-SECP256R1:+GROUP-SECP384R1";

struct tls_identity {
    char *path;
    pthread_mutex_t lock; /* of what follows */
    time_t looked;
    struct stat is;
    struct credentials *now;
};

void credentials_release(struct credentials *c)
{
    if (!c || atomic_fetch_sub(&c->users, 1) > 1)
        return;
    gnutls_certificate_free_credentials(c->all);
    if (c->ciphers)
        gnutls_priority_deinit(c->ciphers);
    gnutls_memset(c->tickets, 0, sizeof(c->tickets));
    gnutls_memset(c->web_tickets, 0, sizeof(c->web_tickets));
    free(c);
}

static void derive_tickets(const gnutls_datum_t *der, const char *purpose,
                           uint8_t ret[TICKETS_BYTES])
{
    for (uint8_t i = 0; i < TICKETS_BYTES / SHA256_BYTES; i++) {
        uint8_t number = (uint8_t)('1' + i);
        struct hmac_sha256 mac;
        hmac_sha256_init(&mac, der->data, der->size);
        hmac_sha256_update(&mac, purpose, strlen(purpose));
        hmac_sha256_update(&mac, &number, 1);
        hmac_sha256_final(&mac, ret + (size_t)i * SHA256_BYTES);
    }
}

/* The same for the same key, and it reveals nothing about the key. */
static int make_tickets(struct credentials *c)
{
    gnutls_x509_privkey_t key = NULL;
    gnutls_datum_t der = {0};
    int rc = gnutls_certificate_get_x509_key(c->all, 0, &key);
    if (!rc)
        rc = gnutls_x509_privkey_export2(key, GNUTLS_X509_FMT_DER, &der);
    if (!rc) {
        derive_tickets(&der, "muster tickets ", c->tickets);
        derive_tickets(&der, "muster web tickets ", c->web_tickets);
    }
    if (der.data)
        gnutls_memset(der.data, 0, der.size);
    gnutls_free(der.data);
    if (key)
        gnutls_x509_privkey_deinit(key);
    return rc;
}

static int credentials_read(const char *path, struct credentials **ret, struct error *err)
{
    struct credentials *c = calloc(1, sizeof(*c));
    int rc = c ? gnutls_certificate_allocate_credentials(&c->all) : GNUTLS_E_MEMORY_ERROR;
    if (rc < 0) {
        free(c);
        return tls_fail(err, rc, "TLS");
    }
    c->users = 1;
    rc = gnutls_priority_init(&c->ciphers, ciphers, NULL);
    if (rc < 0) {
        credentials_release(c);
        return tls_fail(err, rc, "TLS");
    }
    if (path)
        rc = gnutls_certificate_set_x509_key_file(c->all, path, path, GNUTLS_X509_FMT_PEM);
    if (path && rc >= 0)
        rc = make_tickets(c);
    if (rc < 0) {
        credentials_release(c);
        return error_set(err, E_DATA_LOSS, "%s has no key with its certificate: %s", path,
                         gnutls_strerror(rc));
    }
    *ret = c;
    return 0;
}

int tls_identity_new(const char *path, struct tls_identity **ret, struct error *err)
{
    struct tls_identity *identity = calloc(1, sizeof(*identity));
    if (identity && path)
        identity->path = strdup(path);
    if (!identity || (path && !identity->path)) {
        free(identity);
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory for a key");
    }
    if (path && stat(path, &identity->is) < 0)
        memset(&identity->is, 0, sizeof(identity->is));
    int rc = credentials_read(path, &identity->now, err);
    if (rc) {
        free(identity->path);
        free(identity);
        return rc;
    }
    identity->looked = time(NULL);
    pthread_mutex_init(&identity->lock, NULL);
    *ret = identity;
    return 0;
}

void tls_identity_free(struct tls_identity *identity)
{
    if (!identity)
        return;
    credentials_release(identity->now);
    pthread_mutex_destroy(&identity->lock);
    free(identity->path);
    free(identity);
}

struct credentials *credentials_hold(struct tls_identity *identity)
{
    struct credentials *fresh;
    struct stat is;
    pthread_mutex_lock(&identity->lock);
    time_t now = time(NULL);
    if (identity->path && (now < identity->looked || now - identity->looked >= LOOK_AGAIN_S)) {
        identity->looked = now;
        if (tls_file_replaced(identity->path, &identity->is, &is) &&
            !credentials_read(identity->path, &fresh, NULL)) {
            credentials_release(identity->now);
            identity->now = fresh;
            identity->is = is;
        }
    }
    struct credentials *c = identity->now;
    atomic_fetch_add(&c->users, 1);
    pthread_mutex_unlock(&identity->lock);
    return c;
}
