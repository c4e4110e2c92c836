/* Sealing: small values are encrypted for the disk, each bound to the name that it is stored under.
 * AES-256-GCM (NIST SP 800-38D) by GnuTLS, with a random nonce for each seal.
 *
 *     sealed = version (1) | id of the key (8) | nonce (12) | ciphertext | tag (16)
 *
 * The name is the associated data: a sealed value that is moved to another name does not open. Keys
 * are a file or a text of 64 hexadecimal digits a line; the first key seals, all of them open. The
 * id of a key is the start of a hash of it and is no secret. Any thread.
 */
#ifndef ENV_SEAL_H
#define ENV_SEAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/error.h"

struct disk;
struct rng_source;

enum {
    SEAL_KEY_BYTES = 32,
    SEAL_ID_BYTES = 8,
    SEAL_NONCE_BYTES = 12,
    SEAL_TAG_BYTES = 16,
    SEAL_OVERHEAD_BYTES = 1 + SEAL_ID_BYTES + SEAL_NONCE_BYTES + SEAL_TAG_BYTES,
    SEAL_KEYS_MAX = 8,
    SEAL_FILE_MAX_BYTES = 4096,
};

struct seal_keys { /* plain; wipe it with seal_keys_fini */
    uint8_t keys[SEAL_KEYS_MAX][SEAL_KEY_BYTES];
    uint8_t ids[SEAL_KEYS_MAX][SEAL_ID_BYTES];
    int count;
};

void seal_keys_fini(struct seal_keys *keys);

/* 64 hexadecimal digits for each key, separated by white space or commas; a '#' starts a comment.
 * E_INVALID_ARGUMENT, also without any key. */
int seal_keys_parse(const char *text, struct seal_keys *ret, struct error *err);

/* E_NOT_FOUND; E_PERMISSION_DENIED if not only its owner may read the file. */
int seal_keys_read(const struct disk *disk, const char *path, struct seal_keys *ret,
                   struct error *err);

/* Add a new random key before the others. E_RESOURCE_EXHAUSTED beyond SEAL_KEYS_MAX. */
int seal_keys_add(struct seal_keys *keys, const struct rng_source *rng, struct error *err);

/* Forget the other keys. */
void seal_keys_keep_first(struct seal_keys *keys);

/* Create the file, mode 0600, durable. E_ALREADY_EXISTS if it exists. */
int seal_keys_create(const char *path, const struct seal_keys *keys, struct error *err);

/* Replace the file, durably. */
int seal_keys_replace(const struct disk *disk, const char *path, const struct seal_keys *keys,
                      struct error *err);

struct seal_text { /* bytes, borrowed */
    const void *data;
    size_t size;
};

/* Appends size + SEAL_OVERHEAD_BYTES bytes to `out`, sealed by the first key. */
int seal(const struct seal_keys *keys, const struct rng_source *rng, const struct seal_text *name,
         const struct seal_text *plain, struct buf *out, struct error *err);

/* Appends the plain bytes. E_FAILED_PRECONDITION if its key is not among `keys`; E_DATA_LOSS if it
 * was changed, cut or moved to another name. */
int seal_open(const struct seal_keys *keys, const struct seal_text *name,
              const struct seal_text *sealed, struct buf *out, struct error *err);

/* Whether its key is among `keys`, and is the first of them. */
bool seal_has_key(const struct seal_keys *keys, const struct seal_text *sealed);
bool seal_is_newest(const struct seal_keys *keys, const struct seal_text *sealed);

#endif
