#include "common/env/tls_key.h"

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

enum { SERIAL_BYTES = 16, DAY_S = 86400, BACKDATED_S = DAY_S, PEM_MAX_BYTES = 16 << 10 };

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

/* A key and the certificates that speak for it, while they are being made. */
struct bundle {
    gnutls_x509_privkey_t key;
    gnutls_x509_crt_t all[TLS_CHAIN_MAX];
    unsigned count;
};

static void bundle_fini(struct bundle *bundle)
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

static int bundle_read(const char *path, struct bundle *ret, struct error *err)
{
    struct buf pem = {0};
    struct bundle bundle = {.count = TLS_CHAIN_MAX};
    int rc = read_pem(path, &pem, err);
    if (rc != 0)
        return rc;
    gnutls_datum_t data = {(unsigned char *)pem.data, (unsigned)pem.size};
    rc = gnutls_x509_crt_list_import(bundle.all, &bundle.count, &data, GNUTLS_X509_FMT_PEM, 0);
    if (rc < 0)
        bundle.count = 0;
    if (rc > 0)
        rc = gnutls_x509_privkey_init(&bundle.key);
    if (rc == 0)
        rc = gnutls_x509_privkey_import2(bundle.key, &data, GNUTLS_X509_FMT_PEM, NULL, 0);
    gnutls_memset(pem.data, 0, pem.size);
    buf_fini(&pem);
    if (rc < 0) {
        bundle_fini(&bundle);
        return error_set(err, E_DATA_LOSS, "%s holds no key with its certificate: %s", path,
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

static int bundle_write(const char *path, const struct bundle *bundle, struct error *err)
{
    struct buf out;
    gnutls_datum_t pem;
    buf_init(&out, PEM_MAX_BYTES * (TLS_CHAIN_MAX + 1));
    int rc = gnutls_x509_privkey_export2(bundle->key, GNUTLS_X509_FMT_PEM, &pem);
    if (rc == 0)
        rc = add_pem(&out, &pem);
    for (unsigned i = 0; rc == 0 && i < bundle->count; i++) {
        rc = gnutls_x509_crt_export2(bundle->all[i], GNUTLS_X509_FMT_PEM, &pem);
        if (rc == 0)
            rc = add_pem(&out, &pem);
    }
    rc = rc < 0 ? tls_fail(err, rc, "writing a key") : write_private(path, &out, err);
    if (out.data)
        gnutls_memset(out.data, 0, out.size);
    buf_fini(&out);
    return rc;
}

struct certificate { /* to be made */
    const char *name;
    bool authority; /* may sign others */
    time_t until;
    const struct bundle *signer; /* NULL: itself */
};

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
        rc = gnutls_x509_crt_set_activation_time(crt, time(NULL) - BACKDATED_S);
    if (rc == 0)
        rc = gnutls_x509_crt_set_expiration_time(crt, how->until);
    if (rc == 0)
        rc = gnutls_x509_crt_set_basic_constraints(crt, how->authority, how->authority ? 2 : -1);
    if (rc == 0)
        rc = gnutls_x509_crt_set_key_usage(crt, how->authority ? GNUTLS_KEY_KEY_CERT_SIGN
                                                               : GNUTLS_KEY_DIGITAL_SIGNATURE);
    if (rc == 0 && !how->authority)
        rc = gnutls_x509_crt_set_subject_alt_name(crt, GNUTLS_SAN_DNSNAME, how->name,
                                                  (unsigned)strlen(how->name), 0);
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

int tls_make_server_key(const char *path, const char *cluster_path, struct error *err)
{
    struct certificate how = {.name = "muster-coordinator",
                              .until = time(NULL) + (time_t)TLS_SERVER_DAYS * DAY_S};
    return make(path, how, cluster_path, err);
}

int tls_make_node_key(const char *path, const char *name, struct error *err)
{
    struct certificate how = {.name = name, .until = no_end};
    return make(path, how, NULL, err);
}

static int facts_of(const struct bundle *bundle, struct tls_facts *ret)
{
    uint8_t id[32];
    size_t size = sizeof(id);
    int rc = gnutls_x509_privkey_get_key_id(bundle->key, GNUTLS_KEYID_USE_SHA256, id, &size);
    if (rc == 0)
        base64url_encode(id, sizeof(id), ret->pin);
    if (rc == 0)
        rc = tls_pin_of(bundle->all[0], ret->first);
    if (rc == 0)
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
    if (rc != 0)
        return rc;
    rc = facts_of(&bundle, &facts);
    bundle_fini(&bundle);
    if (rc < 0)
        return tls_fail(err, rc, path);
    if (strcmp(facts.pin, facts.first) != 0)
        return error_set(err, E_DATA_LOSS, "%s: its first certificate is not of its key", path);
    *ret = facts;
    return 0;
}
