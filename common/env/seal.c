#include "common/env/seal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gnutls/crypto.h>

#include "common/base/hex.h"
#include "common/base/sha256.h"
#include "common/base/str.h"
#include "common/env/env.h"
#include "common/env/tls_bundle.h"

enum { VERSION = 1, ID_AT = 1, NONCE_AT = ID_AT + SEAL_ID_BYTES };
enum { TEXT_AT = NONCE_AT + SEAL_NONCE_BYTES, FILE_MODE = 0600 };

static const char id_label[] = "muster seal key id";

void seal_keys_fini(struct seal_keys *keys)
{
    explicit_bzero(keys, sizeof(*keys));
}

static void name_key(struct seal_keys *keys, int at)
{
    struct sha256 hash;
    uint8_t digest[SHA256_BYTES];
    sha256_init(&hash);
    sha256_update(&hash, id_label, sizeof(id_label));
    sha256_update(&hash, keys->keys[at], SEAL_KEY_BYTES);
    sha256_final(&hash, digest);
    memcpy(keys->ids[at], digest, SEAL_ID_BYTES);
}

static int no_keys(struct error *err)
{
    error_hint(err, "each key is 64 hexadecimal digits on a line of its own, %d keys at most",
               SEAL_KEYS_MAX);
    return error_set(err, E_INVALID_ARGUMENT, "these are no keys for secrets");
}

static bool take_word(struct seal_keys *keys, const char *word, size_t size)
{
    char digits[2 * SEAL_KEY_BYTES + 1];
    if (size != sizeof(digits) - 1 || keys->count == SEAL_KEYS_MAX)
        return false;
    memcpy(digits, word, size);
    digits[size] = '\0';
    int rc = hex_decode(digits, keys->keys[keys->count], SEAL_KEY_BYTES);
    explicit_bzero(digits, sizeof(digits));
    if (!rc)
        name_key(keys, keys->count++);
    return !rc;
}

int seal_keys_parse(const char *text, struct seal_keys *ret, struct error *err)
{
    struct seal_keys keys = {0};
    bool good = true;
    while (good && *text) {
        size_t size = strcspn(text, " \t\r\n,#");
        if (size == 0)
            size = *text == '#' ? strcspn(text, "\n") : 1;
        else
            good = take_word(&keys, text, size);
        text += size;
    }
    good = good && keys.count > 0;
    if (good)
        *ret = keys;
    seal_keys_fini(&keys);
    return good ? 0 : no_keys(err);
}

static int check_mode(const char *path, struct error *err)
{
    struct stat status;
    if (stat(path, &status) < 0 || !(status.st_mode & 077))
        return 0;
    error_set(err, E_PERMISSION_DENIED, "%s can be read by others than its owner", path);
    error_hint(err, "chmod 600 %s, and `muster secret rekey` if others may have read it", path);
    return E_PERMISSION_DENIED;
}

int seal_keys_read(const struct disk *disk, const char *path, struct seal_keys *ret,
                   struct error *err)
{
    char *data;
    size_t size;
    int rc = check_mode(path, err);
    if (!rc)
        rc = disk->read_file(disk->self, path, SEAL_FILE_MAX_BYTES, &data, &size, err);
    if (rc)
        return rc;
    rc = seal_keys_parse(data, ret, err);
    explicit_bzero(data, size);
    free(data);
    if (rc)
        return error_wrap(err, "%s", path);
    return 0;
}

int seal_keys_add(struct seal_keys *keys, const struct rng_source *rng, struct error *err)
{
    if (keys->count == SEAL_KEYS_MAX)
        return error_set(err, E_RESOURCE_EXHAUSTED, "there are %d keys for secrets already",
                         SEAL_KEYS_MAX);
    memmove(keys->keys[1], keys->keys[0], sizeof(keys->keys[0]) * (size_t)keys->count);
    memmove(keys->ids[1], keys->ids[0], sizeof(keys->ids[0]) * (size_t)keys->count);
    rng->fill(rng->self, keys->keys[0], SEAL_KEY_BYTES);
    keys->count++;
    name_key(keys, 0);
    return 0;
}

void seal_keys_keep_first(struct seal_keys *keys)
{
    struct seal_keys kept = {.count = 1};
    memcpy(kept.keys[0], keys->keys[0], SEAL_KEY_BYTES);
    memcpy(kept.ids[0], keys->ids[0], SEAL_ID_BYTES);
    explicit_bzero(keys, sizeof(*keys));
    *keys = kept;
    seal_keys_fini(&kept);
}

static void write_keys(const struct seal_keys *keys, char ret[SEAL_FILE_MAX_BYTES])
{
    size_t used = 0;
    char digits[2 * SEAL_KEY_BYTES + 1];
    (void)str_copy(ret, SEAL_FILE_MAX_BYTES,
                   "# Keys of this cluster's secrets: the first seals. Keep a copy apart from "
                   "backups.\n");
    for (int i = 0; i < keys->count; i++) {
        used = strlen(ret);
        hex_encode(keys->keys[i], SEAL_KEY_BYTES, digits);
        (void)str_printf(ret + used, SEAL_FILE_MAX_BYTES - used, "%s\n", digits);
    }
    explicit_bzero(digits, sizeof(digits));
}

static int sync_folder(const char *path, struct error *err)
{
    char folder[4096];
    const char *slash = strrchr(path, '/');
    int rc = str_printf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - path) + 1 : 1,
                        slash ? path : ".");
    int fd = rc ? -1 : open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) < 0)
        rc = error_errno(err, errno, "%s", folder);
    if (fd >= 0)
        close(fd);
    return rc;
}

int seal_keys_create(const char *path, const struct seal_keys *keys, struct error *err)
{
    char text[SEAL_FILE_MAX_BYTES];
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, FILE_MODE);
    if (fd < 0)
        return error_errno(err, errno, "%s", path);
    write_keys(keys, text);
    size_t size = strlen(text);
    ssize_t written = write(fd, text, size);
    int problem = written == (ssize_t)size ? 0 : written < 0 ? errno : ENOSPC;
    explicit_bzero(text, sizeof(text));
    if (!problem && (fchmod(fd, FILE_MODE) < 0 || fsync(fd) < 0))
        problem = errno;
    close(fd);
    if (!problem)
        return sync_folder(path, err);
    (void)unlink(path);
    return error_errno(err, problem, "cannot write %s", path);
}

int seal_keys_replace(const struct disk *disk, const char *path, const struct seal_keys *keys,
                      struct error *err)
{
    char text[SEAL_FILE_MAX_BYTES];
    write_keys(keys, text);
    int rc = disk->write_file(disk->self, path, text, strlen(text), FILE_MODE, err);
    explicit_bzero(text, sizeof(text));
    return rc;
}

static int open_cipher(const struct seal_keys *keys, int at, gnutls_aead_cipher_hd_t *ret,
                       struct error *err)
{
    gnutls_datum_t key = {(unsigned char *)(uintptr_t)keys->keys[at], SEAL_KEY_BYTES};
    int rc = gnutls_aead_cipher_init(ret, GNUTLS_CIPHER_AES_256_GCM, &key);
    return rc < 0 ? tls_fail(err, rc, "AES-256-GCM") : 0;
}

int seal(const struct seal_keys *keys, const struct rng_source *rng, const struct seal_text *name,
         const struct seal_text *plain, struct buf *out, struct error *err)
{
    gnutls_aead_cipher_hd_t cipher;
    size_t room = plain->size + SEAL_TAG_BYTES, whole = TEXT_AT + room;
    uint8_t *made = keys->count ? malloc(whole) : NULL;
    if (!made)
        return keys->count ? error_set(err, E_RESOURCE_EXHAUSTED, "out of memory") : no_keys(err);
    made[0] = VERSION;
    memcpy(made + ID_AT, keys->ids[0], SEAL_ID_BYTES);
    rng->fill(rng->self, made + NONCE_AT, SEAL_NONCE_BYTES);
    int rc = open_cipher(keys, 0, &cipher, err);
    if (!rc) {
        int code = gnutls_aead_cipher_encrypt(cipher, made + NONCE_AT, SEAL_NONCE_BYTES, name->data,
                                              name->size, SEAL_TAG_BYTES, plain->data, plain->size,
                                              made + TEXT_AT, &room);
        gnutls_aead_cipher_deinit(cipher);
        rc = code < 0 ? tls_fail(err, code, "sealing") : 0;
    }
    if (!rc && buf_append(out, made, whole))
        rc = error_set(err, E_RESOURCE_EXHAUSTED, "out of memory");
    free(made);
    return rc;
}

/* -1: none of them. */
static int key_of(const struct seal_keys *keys, const struct seal_text *sealed)
{
    const uint8_t *bytes = sealed->data;
    if (sealed->size < SEAL_OVERHEAD_BYTES || bytes[0] != VERSION)
        return -1;
    for (int i = 0; i < keys->count; i++)
        if (memcmp(keys->ids[i], bytes + ID_AT, SEAL_ID_BYTES) == 0)
            return i;
    return -1;
}

bool seal_has_key(const struct seal_keys *keys, const struct seal_text *sealed)
{
    return key_of(keys, sealed) >= 0;
}

bool seal_is_newest(const struct seal_keys *keys, const struct seal_text *sealed)
{
    return key_of(keys, sealed) == 0;
}

int seal_open(const struct seal_keys *keys, const struct seal_text *name,
              const struct seal_text *sealed, struct buf *out, struct error *err)
{
    gnutls_aead_cipher_hd_t cipher;
    const uint8_t *bytes = sealed->data;
    int at = key_of(keys, sealed);
    if (at < 0)
        return error_set(err, E_FAILED_PRECONDITION, "it was sealed with a key that is not here");
    size_t room = sealed->size - SEAL_OVERHEAD_BYTES, plain_size = room;
    uint8_t *plain = malloc(room + 1);
    if (!plain)
        return error_set(err, E_RESOURCE_EXHAUSTED, "out of memory");
    int rc = open_cipher(keys, at, &cipher, err);
    if (!rc) {
        int code = gnutls_aead_cipher_decrypt(
            cipher, bytes + NONCE_AT, SEAL_NONCE_BYTES, name->data, name->size, SEAL_TAG_BYTES,
            bytes + TEXT_AT, sealed->size - TEXT_AT, plain, &plain_size);
        gnutls_aead_cipher_deinit(cipher);
        if (code < 0)
            rc = error_set(err, E_DATA_LOSS, "it was changed since it was sealed");
    }
    if (!rc && buf_append(out, plain, plain_size))
        rc = error_set(err, E_RESOURCE_EXHAUSTED, "out of memory");
    explicit_bzero(plain, room + 1);
    free(plain);
    return rc;
}
