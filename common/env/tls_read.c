#include "common/env/tls_read.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

#include "common/base/hex.h"
#include "common/env/tls_bundle.h"

int tls_check_pin(const char *pin, struct error *err)
{
    uint8_t id[32];
    size_t size;
    if (strlen(pin) == TLS_PIN_LENGTH && !base64url_decode(pin, id, sizeof(id), &size) &&
        size == sizeof(id))
        return 0;
    return error_set(err, E_INVALID_ARGUMENT,
                     "'%.60s' is no fingerprint of a key: it has %d letters, digits, '-' and '_'",
                     pin, TLS_PIN_LENGTH);
}

static int facts_of(const struct bundle *bundle, struct tls_facts *ret)
{
    uint8_t id[32];
    size_t size = sizeof(id);
    int rc = gnutls_x509_privkey_get_key_id(bundle->key, GNUTLS_KEYID_USE_SHA256, id, &size);
    if (!rc)
        base64url_encode(id, sizeof(id), ret->pin);
    if (!rc)
        rc = tls_pin_of(bundle->all[0], ret->first);
    if (!rc)
        rc = tls_pin_of(bundle->all[bundle->count > 1], ret->signer);
    ret->expires_wall_ms = (int64_t)gnutls_x509_crt_get_expiration_time(bundle->all[0]) * 1000;
    ret->certificates = (int)bundle->count;
    return rc;
}

int tls_read_facts(const char *path, struct tls_facts *ret, struct error *err)
{
    struct bundle bundle;
    struct tls_facts facts = {0};
    int rc = bundle_read(path, &bundle, err);
    if (rc)
        return rc;
    rc = facts_of(&bundle, &facts);
    bundle_fini(&bundle);
    if (rc)
        return tls_fail(err, rc, path);
    if (strcmp(facts.pin, facts.first) != 0)
        return error_set(err, E_DATA_LOSS, "%s: its first certificate is not of its key", path);
    *ret = facts;
    return 0;
}

/* A server's own certificate precedes those of the cluster, and a new cluster key precedes the
 * others. */
int tls_read_oldest(const char *cluster_path, struct tls_oldest *ret, struct error *err)
{
    enum { STAY = TLS_CHAIN_MAX - 2 };
    struct bundle bundle;
    int rc = bundle_read(cluster_path, &bundle, err);
    if (rc)
        return rc;
    if (bundle.count <= STAY) {
        rc = error_set(err, E_NOT_FOUND, "%s: all of its keys are shown still", cluster_path);
    } else {
        time_t made = gnutls_x509_crt_get_activation_time(bundle.all[STAY - 1]) + TLS_BACKDATED_S;
        ret->until_wall_ms = ((int64_t)made + 1) * 1000;
        rc = tls_pin_of(bundle.all[STAY], ret->pin);
        rc = rc < 0 ? tls_fail(err, rc, cluster_path) : 0;
    }
    bundle_fini(&bundle);
    return rc;
}

/* Names */

/* The name that is the `index`-th, as text; GnuTLS' code, "" for one of another kind. */
static int name_at(gnutls_x509_crt_t crt, unsigned index, char ret[TLS_NAME_MAX])
{
    uint8_t name[TLS_NAME_MAX];
    size_t size = sizeof(name) - 1;
    int kind = gnutls_x509_crt_get_subject_alt_name(crt, index, name, &size, NULL);
    ret[0] = 0;
    if (kind == GNUTLS_SAN_DNSNAME) {
        memcpy(ret, name, size);
        ret[size] = 0;
    } else if (kind == GNUTLS_SAN_IPADDRESS) {
        (void)inet_ntop(size == sizeof(struct in_addr) ? AF_INET : AF_INET6, name, ret,
                        TLS_NAME_MAX);
    }
    return kind == GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE ? kind : 0;
}

/* Addresses have several spellings. */
static bool is_same(const char *a, const char *b)
{
    struct in6_addr one, other;
    if (inet_pton(AF_INET6, a, &one) == 1 && inet_pton(AF_INET6, b, &other) == 1)
        return memcmp(&one, &other, sizeof(one)) == 0;
    return strcasecmp(a, b) == 0;
}

static bool has_name(gnutls_x509_crt_t crt, const char *name)
{
    char one[TLS_NAME_MAX];
    for (unsigned i = 0; i < TLS_NAMES_MAX && name_at(crt, i, one) == 0; i++)
        if (is_same(one, name))
            return true;
    return false;
}

bool tls_has_names(const char *path, const char *const *names)
{
    struct bundle bundle = {0};
    bool all = !bundle_read(path, &bundle, NULL);
    for (int i = 0; all && names[i] && i < TLS_NAMES_MAX - 1; i++)
        all = has_name(bundle.all[0], names[i]);
    bundle_fini(&bundle);
    return all;
}

int tls_read_names(const char *path, struct buf *ret, struct error *err)
{
    struct bundle bundle;
    char name[TLS_NAME_MAX];
    const char *comma = "";
    int rc = bundle_read(path, &bundle, err);
    if (rc)
        return rc;
    for (unsigned i = 0; i < TLS_NAMES_MAX && name_at(bundle.all[0], i, name) == 0; i++) {
        if (name[0] && !rc)
            rc = buf_printf(ret, "%s%s", comma, name);
        comma = ", ";
    }
    bundle_fini(&bundle);
    return rc;
}

int tls_read_authorities(const char *path, struct buf *ret, struct error *err)
{
    struct bundle bundle;
    int rc = bundle_read(path, &bundle, err);
    if (rc)
        return rc;
    int code = 0;
    for (unsigned i = 1; code == 0 && i < bundle.count; i++)
        code = bundle_put_pem(ret, bundle.all[i]);
    if (code < 0)
        rc = tls_fail(err, code, path);
    else if (bundle.count < 2)
        rc = error_set(err, E_NOT_FOUND, "%s has no certificate of an authority", path);
    bundle_fini(&bundle);
    return rc;
}

bool tls_file_replaced(const char *path, const struct stat *was, struct stat *ret)
{
    struct stat now;
    if (stat(path, &now) != 0 ||
        (now.st_ino == was->st_ino && now.st_size == was->st_size &&
         now.st_mtim.tv_sec == was->st_mtim.tv_sec && now.st_mtim.tv_nsec == was->st_mtim.tv_nsec))
        return false;
    if (ret)
        *ret = now;
    return true;
}
