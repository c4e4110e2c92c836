#include "common/env/tls_key.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <gnutls/crypto.h>
#include <gnutls/x509.h>

#include "common/base/buf.h"
#include "common/base/hex.h"
#include "common/base/str.h"
#include "common/env/disk_os.h"
#include "common/env/tls_internal.h"

enum { SERIAL_BYTES = 16, DAY_S = 86400, PEM_MAX_BYTES = 16 << 10 };

/* RFC 5280 4.1.2.5: no well-defined end. */
static const time_t no_end = 253402300799;

int tls_fail(struct error *err, int rc, const char *what)
{
    return error_set(err, rc == GNUTLS_E_MEMORY_ERROR ? E_RESOURCE_EXHAUSTED : E_INTERNAL, "%s: %s",
                     what, gnutls_strerror(rc));
}

int tls_pin_of(gnutls_x509_crt_t certificate, char ret[TLS_PIN_MAX])
{
    uint8_t id[32];
    size_t size = sizeof(id);
    int rc = gnutls_x509_crt_get_key_id(certificate, GNUTLS_KEYID_USE_SHA256, id, &size);
    if (rc == 0)
        base64url_encode(id, sizeof(id), ret);
    return rc;
}

int tls_check_pin(const char *pin, struct error *err)
{
    uint8_t id[32];
    size_t size;
    if (strlen(pin) == TLS_PIN_LENGTH && base64url_decode(pin, id, sizeof(id), &size) == 0 &&
        size == sizeof(id))
        return 0;
    return error_set(err, E_INVALID_ARGUMENT,
                     "'%.60s' is no fingerprint of a key: it has %d letters, digits, '-' and '_'",
                     pin, TLS_PIN_LENGTH);
}

void bundle_fini(struct bundle *bundle)
{
    for (unsigned i = 0; i < bundle->count; i++)
        gnutls_x509_crt_deinit(bundle->all[i]);
    if (bundle->key)
        gnutls_x509_privkey_deinit(bundle->key);
    *bundle = (struct bundle){0};
}

static int read_pem(const char *path, struct buf *ret, struct error *err)
{
    struct disk disk = disk_os();
    char *data;
    size_t size;
    int rc = disk.read_file(disk.self, path, TLS_FILE_MAX_BYTES, &data, &size, err);
    if (rc != 0)
        return rc;
    buf_init(ret, TLS_FILE_MAX_BYTES + 1);
    rc = buf_append(ret, data, size);
    gnutls_memset(data, 0, size);
    free(data);
    return rc;
}

static int refuse_long(const char *path, struct error *err)
{
    error_set(err, E_INVALID_ARGUMENT,
              "%s has more than %d certificates, the most that clients read", path, TLS_CHAIN_MAX);
    error_hint(err, "leave out the last ones: clients know the authority at the end of the chain");
    return E_INVALID_ARGUMENT;
}

int bundle_read(const char *path, struct bundle *ret, struct error *err)
{
    struct buf pem = {0};
    struct bundle bundle = {.count = TLS_CHAIN_MAX};
    int rc = read_pem(path, &pem, err);
    if (rc != 0)
        return rc;
    gnutls_datum_t data = {(unsigned char *)pem.data, (unsigned)pem.size};
    rc = gnutls_x509_crt_list_import(bundle.all, &bundle.count, &data, GNUTLS_X509_FMT_PEM,
                                     GNUTLS_X509_CRT_LIST_IMPORT_FAIL_IF_EXCEED);
    if (rc < 0)
        bundle.count = 0;
    if (rc > 0)
        rc = gnutls_x509_privkey_init(&bundle.key);
    if (rc == 0)
        rc = gnutls_x509_privkey_import2(bundle.key, &data, GNUTLS_X509_FMT_PEM, NULL, 0);
    gnutls_memset(pem.data, 0, pem.size);
    buf_fini(&pem);
    if (rc == GNUTLS_E_SHORT_MEMORY_BUFFER)
        return refuse_long(path, err);
    if (rc < 0) {
        bundle_fini(&bundle);
        return error_set(err, E_DATA_LOSS, "%s has no key with its certificate: %s", path,
                         gnutls_strerror(rc));
    }
    *ret = bundle;
    return 0;
}

/* The file appears whole, or not at all. */
static int write_private(const char *path, const struct buf *pem, struct error *err)
{
    struct disk disk = disk_os();
    return disk.write_file(disk.self, path, pem->data, pem->size, 0600, err);
}

static int add_pem(struct buf *out, gnutls_datum_t *pem)
{
    int rc = buf_append(out, pem->data, pem->size);
    gnutls_memset(pem->data, 0, pem->size);
    gnutls_free(pem->data);
    return rc == 0 ? 0 : GNUTLS_E_MEMORY_ERROR;
}

int bundle_put_pem(struct buf *out, gnutls_x509_crt_t certificate)
{
    gnutls_datum_t pem;
    int rc = gnutls_x509_crt_export2(certificate, GNUTLS_X509_FMT_PEM, &pem);
    return rc == 0 ? add_pem(out, &pem) : rc;
}

static int bundle_write(const char *path, const struct bundle *bundle, struct error *err)
{
    struct buf out;
    gnutls_datum_t pem;
    buf_init(&out, PEM_MAX_BYTES * (TLS_CHAIN_MAX + 1));
    int rc = gnutls_x509_privkey_export2(bundle->key, GNUTLS_X509_FMT_PEM, &pem);
    if (rc == 0)
        rc = add_pem(&out, &pem);
    for (unsigned i = 0; rc == 0 && i < bundle->count; i++)
        rc = bundle_put_pem(&out, bundle->all[i]);
    rc = rc < 0 ? tls_fail(err, rc, "writing a key") : write_private(path, &out, err);
    if (out.data)
        gnutls_memset(out.data, 0, out.size);
    buf_fini(&out);
    return rc;
}

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
    for (int i = 0; rc == 0 && how->names && how->names[i] && i < TLS_NAMES_MAX - 1; i++)
        rc = put_name(crt, how->names[i]);
    return rc;
}

/* Of the keys: OpenSSL's strict mode asks for them. */
static int put_ids(gnutls_x509_crt_t crt, gnutls_x509_crt_t signer)
{
    uint8_t id[32];
    size_t size = sizeof(id);
    int rc = gnutls_x509_crt_get_key_id(crt, GNUTLS_KEYID_USE_SHA256, id, &size);
    if (rc == 0)
        rc = gnutls_x509_crt_set_subject_key_id(crt, id, size);
    size = sizeof(id);
    if (rc == 0 && gnutls_x509_crt_get_subject_key_id(signer, id, &size, NULL) == 0)
        rc = gnutls_x509_crt_set_authority_key_id(crt, id, size);
    return rc;
}

static int describe(gnutls_x509_crt_t crt, gnutls_x509_privkey_t key, const struct certificate *how)
{
    uint8_t serial[SERIAL_BYTES];
    int rc = gnutls_rnd(GNUTLS_RND_NONCE, serial, sizeof(serial));
    serial[0] &= 0x7f; /* positive */
    if (rc == 0)
        rc = gnutls_x509_crt_set_version(crt, 3);
    if (rc == 0)
        rc = gnutls_x509_crt_set_serial(crt, serial, sizeof(serial));
    if (rc == 0)
        rc = gnutls_x509_crt_set_dn_by_oid(crt, GNUTLS_OID_X520_COMMON_NAME, 0, how->name,
                                           (unsigned)strlen(how->name));
    if (rc == 0)
        rc = gnutls_x509_crt_set_activation_time(crt, time(NULL) - TLS_BACKDATED_S);
    if (rc == 0)
        rc = gnutls_x509_crt_set_expiration_time(crt, how->until);
    if (rc == 0)
        rc = gnutls_x509_crt_set_basic_constraints(crt, how->authority, how->authority ? 2 : -1);
    if (rc == 0)
        rc = gnutls_x509_crt_set_key_usage(crt, how->authority ? GNUTLS_KEY_KEY_CERT_SIGN
                                                               : GNUTLS_KEY_DIGITAL_SIGNATURE);
    if (rc == 0 && !how->authority)
        rc = put_names(crt, how);
    if (rc == 0 && !how->authority)
        rc = gnutls_x509_crt_set_key_purpose_oid(crt, how->purpose, 0);
    return rc == 0 ? gnutls_x509_crt_set_key(crt, key) : rc;
}

/* A new key; its certificate, then its signer's. */
static int bundle_make(const struct certificate *how, struct bundle *ret)
{
    struct bundle made = {0};
    gnutls_x509_crt_t crt = NULL;
    int rc = gnutls_x509_privkey_init(&made.key);
    if (rc == 0)
        rc = gnutls_x509_privkey_generate(made.key, GNUTLS_PK_ECDSA,
                                          GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0);
    if (rc == 0)
        rc = gnutls_x509_crt_init(&crt);
    if (rc == 0) {
        made.all[made.count++] = crt;
        rc = describe(crt, made.key, how);
    }
    const struct bundle *signer = how->signer ? how->signer : &made;
    if (rc == 0)
        rc = put_ids(crt, signer->all[0]);
    if (rc == 0)
        rc = gnutls_x509_crt_sign2(crt, signer->all[0], signer->key, GNUTLS_DIG_SHA256, 0);
    if (rc == 0)
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

static int make(const char *path, struct certificate how, const char *signer_path,
                struct error *err)
{
    struct bundle signer = {0}, made = {0};
    int rc = signer_path ? bundle_read(signer_path, &signer, err) : 0;
    if (rc != 0)
        return rc;
    how.signer = signer_path ? &signer : NULL;
    rc = bundle_make(&how, &made);
    if (rc < 0)
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
    return make(path, how, old, err);
}

int tls_make_server_key(const char *path, const char *cluster_path, const char *const *names,
                        struct error *err)
{
    struct bundle old = {0};
    struct certificate how = {.name = "muster-coordinator",
                              .purpose = GNUTLS_KP_TLS_WWW_SERVER,
                              .until = time(NULL) + (time_t)TLS_SERVER_DAYS * DAY_S,
                              .names = names};
    if (!names && access(path, F_OK) == 0 && bundle_read(path, &old, NULL) == 0)
        how.like = &old;
    int rc = make(path, how, cluster_path, err);
    bundle_fini(&old);
    return rc;
}

int tls_make_node_key(const char *path, const char *name, struct error *err)
{
    struct certificate how = {.name = name, .purpose = GNUTLS_KP_TLS_WWW_CLIENT, .until = no_end};
    return make(path, how, NULL, err);
}
