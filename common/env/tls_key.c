#include "common/env/tls_key.h"

#include <arpa/inet.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <gnutls/crypto.h>

#include "common/base/hex.h"
#include "common/base/str.h"
#include "common/env/tls_bundle.h"

enum { SERIAL_BYTES = 16, DAY_S = 86400 };

/* RFC 5280 4.1.2.5: no well-defined end. */
static const time_t no_end = 253402300799;

struct certificate { /* to be made */
    const char *name;
    bool authority;      /* may sign others */
    const char *purpose; /* of one that is no authority */
    time_t until;
    const struct bundle *signer; /* NULL: itself */
    const char *const *names;    /* more than `name`; NULL: none */
    const struct bundle *like;   /* has those that the new one gets; NULL: none */
};

static int put_name(gnutls_x509_crt_t crt, const char *name)
{
    uint8_t address[sizeof(struct in6_addr)];
    unsigned size = inet_pton(AF_INET, name, address) == 1    ? sizeof(struct in_addr)
                    : inet_pton(AF_INET6, name, address) == 1 ? sizeof(struct in6_addr)
                                                              : 0;
    return size ? gnutls_x509_crt_set_subject_alt_name(crt, GNUTLS_SAN_IPADDRESS, address, size,
                                                       GNUTLS_FSAN_APPEND)
                : gnutls_x509_crt_set_subject_alt_name(crt, GNUTLS_SAN_DNSNAME, name,
                                                       (unsigned)strlen(name), GNUTLS_FSAN_APPEND);
}

static int put_names_of(gnutls_x509_crt_t crt, gnutls_x509_crt_t from)
{
    for (unsigned i = 0; i < TLS_NAMES_MAX; i++) {
        uint8_t name[TLS_NAME_MAX];
        size_t size = sizeof(name);
        int kind = gnutls_x509_crt_get_subject_alt_name(from, i, name, &size, NULL);
        if (kind == GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE)
            return 0;
        if (kind != GNUTLS_SAN_DNSNAME && kind != GNUTLS_SAN_IPADDRESS)
            continue;
        int rc = gnutls_x509_crt_set_subject_alt_name(crt, (gnutls_x509_subject_alt_name_t)kind,
                                                      name, (unsigned)size, GNUTLS_FSAN_APPEND);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int put_names(gnutls_x509_crt_t crt, const struct certificate *how)
{
    if (how->like)
        return put_names_of(crt, how->like->all[0]);
    int rc = put_name(crt, how->name);
    for (int i = 0; !rc && how->names && how->names[i] && i < TLS_NAMES_MAX - 1; i++)
        rc = put_name(crt, how->names[i]);
    return rc;
}

/* Of the keys: OpenSSL's strict mode asks for them. */
static int put_ids(gnutls_x509_crt_t crt, gnutls_x509_crt_t signer)
{
    uint8_t id[32];
    size_t size = sizeof(id);
    int rc = gnutls_x509_crt_get_key_id(crt, GNUTLS_KEYID_USE_SHA256, id, &size);
    if (!rc)
        rc = gnutls_x509_crt_set_subject_key_id(crt, id, size);
    size = sizeof(id);
    if (!rc && gnutls_x509_crt_get_subject_key_id(signer, id, &size, NULL) == 0)
        rc = gnutls_x509_crt_set_authority_key_id(crt, id, size);
    return rc;
}

static int fill_certificate(gnutls_x509_crt_t crt, gnutls_x509_privkey_t key,
                            const struct certificate *how)
{
    uint8_t serial[SERIAL_BYTES];
    int rc = gnutls_rnd(GNUTLS_RND_NONCE, serial, sizeof(serial));
    serial[0] &= 0x7f; /* positive */
    if (!rc)
        rc = gnutls_x509_crt_set_version(crt, 3);
    if (!rc)
        rc = gnutls_x509_crt_set_serial(crt, serial, sizeof(serial));
    if (!rc)
        rc = gnutls_x509_crt_set_dn_by_oid(crt, GNUTLS_OID_X520_COMMON_NAME, 0, how->name,
                                           (unsigned)strlen(how->name));
    if (!rc)
        rc = gnutls_x509_crt_set_activation_time(crt, time(NULL) - TLS_BACKDATED_S);
    if (!rc)
        rc = gnutls_x509_crt_set_expiration_time(crt, how->until);
    if (!rc)
        rc = gnutls_x509_crt_set_basic_constraints(crt, how->authority, how->authority ? 2 : -1);
    if (!rc)
        rc = gnutls_x509_crt_set_key_usage(crt, how->authority ? GNUTLS_KEY_KEY_CERT_SIGN
                                                               : GNUTLS_KEY_DIGITAL_SIGNATURE);
    if (!rc && !how->authority)
        rc = put_names(crt, how);
    if (!rc && !how->authority)
        rc = gnutls_x509_crt_set_key_purpose_oid(crt, how->purpose, 0);
    if (rc)
        return rc;
    return gnutls_x509_crt_set_key(crt, key);
}

/* A new key; its certificate, then its signer's. */
static int bundle_make(const struct certificate *how, struct bundle *ret)
{
    struct bundle made = {0};
    gnutls_x509_crt_t crt = NULL;
    int rc = gnutls_x509_privkey_init(&made.key);
    if (!rc)
        rc = gnutls_x509_privkey_generate(made.key, GNUTLS_PK_ECDSA,
                                          GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0);
    if (!rc)
        rc = gnutls_x509_crt_init(&crt);
    if (!rc) {
        made.all[made.count++] = crt;
        rc = fill_certificate(crt, made.key, how);
    }
    const struct bundle *signer = how->signer ? how->signer : &made;
    if (!rc)
        rc = put_ids(crt, signer->all[0]);
    if (!rc)
        rc = gnutls_x509_crt_sign2(crt, signer->all[0], signer->key, GNUTLS_DIG_SHA256, 0);
    if (!rc)
        *ret = made;
    else
        bundle_fini(&made);
    return rc;
}

static int write_with_signer(const char *path, struct bundle *made, const struct bundle *signer,
                             struct error *err)
{
    struct bundle all = {.key = made->key, .all = {made->all[0]}, .count = 1};
    for (unsigned i = 0; signer && i < signer->count && all.count < TLS_CHAIN_MAX; i++)
        all.all[all.count++] = signer->all[i];
    return bundle_write(path, &all, err);
}

static int make_key_file(const char *path, struct certificate how, const char *signer_path,
                         struct error *err)
{
    struct bundle signer = {0}, made = {0};
    int rc = signer_path ? bundle_read(signer_path, &signer, err) : 0;
    if (rc)
        return rc;
    how.signer = signer_path ? &signer : NULL;
    rc = bundle_make(&how, &made);
    if (rc)
        rc = tls_fail(err, rc, "making a key");
    else
        rc = write_with_signer(path, &made, how.signer, err);
    bundle_fini(&made);
    bundle_fini(&signer);
    return rc;
}

int tls_make_cluster_key(const char *path, const char *old, struct error *err)
{
    uint8_t mark[4];
    char hex[2 * sizeof(mark) + 1], name[48];
    int rc = gnutls_rnd(GNUTLS_RND_NONCE, mark, sizeof(mark));
    if (rc < 0)
        return tls_fail(err, rc, "making a key");
    /* A name of its own: a chain is followed by names, and an old key may sign this one. */
    hex_encode(mark, sizeof(mark), hex);
    (void)str_printf(name, sizeof(name), "Muster cluster %s", hex);
    struct certificate how = {.name = name, .authority = true, .until = no_end};
    return make_key_file(path, how, old, err);
}

int tls_make_server_key(const char *path, const char *cluster_path, const char *const *names,
                        struct error *err)
{
    struct bundle old = {0};
    struct certificate how = {.name = "muster-coordinator",
                              .purpose = GNUTLS_KP_TLS_WWW_SERVER,
                              .until = time(NULL) + (time_t)TLS_SERVER_DAYS * DAY_S,
                              .names = names};
    if (!names && access(path, F_OK) == 0 && !bundle_read(path, &old, NULL))
        how.like = &old;
    int rc = make_key_file(path, how, cluster_path, err);
    bundle_fini(&old);
    return rc;
}

int tls_make_node_key(const char *path, const char *name, struct error *err)
{
    struct certificate how = {.name = name, .purpose = GNUTLS_KP_TLS_WWW_CLIENT, .until = no_end};
    return make_key_file(path, how, NULL, err);
}
