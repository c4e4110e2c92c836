#include "common/env/tls_bundle.h"

#include <stdlib.h>

#include <gnutls/crypto.h>

#include "common/base/hex.h"
#include "common/env/disk_os.h"

enum { PEM_MAX_BYTES = 16 << 10 };

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
    if (!rc)
        base64url_encode(id, sizeof(id), ret);
    return rc;
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
    if (rc)
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
    if (rc)
        return rc;
    gnutls_datum_t data = {(unsigned char *)pem.data, (unsigned)pem.size};
    rc = gnutls_x509_crt_list_import(bundle.all, &bundle.count, &data, GNUTLS_X509_FMT_PEM,
                                     GNUTLS_X509_CRT_LIST_IMPORT_FAIL_IF_EXCEED);
    if (rc < 0)
        bundle.count = 0;
    if (rc > 0)
        rc = gnutls_x509_privkey_init(&bundle.key);
    if (!rc)
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
    if (rc)
        return GNUTLS_E_MEMORY_ERROR;
    return 0;
}

int bundle_put_pem(struct buf *out, gnutls_x509_crt_t certificate)
{
    gnutls_datum_t pem;
    int rc = gnutls_x509_crt_export2(certificate, GNUTLS_X509_FMT_PEM, &pem);
    if (rc)
        return rc;
    return add_pem(out, &pem);
}

int bundle_write(const char *path, const struct bundle *bundle, struct error *err)
{
    struct buf out;
    gnutls_datum_t pem;
    buf_init(&out, PEM_MAX_BYTES * (TLS_CHAIN_MAX + 1));
    int rc = gnutls_x509_privkey_export2(bundle->key, GNUTLS_X509_FMT_PEM, &pem);
    if (!rc)
        rc = add_pem(&out, &pem);
    for (unsigned i = 0; !rc && i < bundle->count; i++)
        rc = bundle_put_pem(&out, bundle->all[i]);
    rc = rc < 0 ? tls_fail(err, rc, "writing a key") : write_private(path, &out, err);
    if (out.data)
        gnutls_memset(out.data, 0, out.size);
    buf_fini(&out);
    return rc;
}
