/* SHA-256 (FIPS 180-4) and HMAC-SHA-256 (RFC 2104), for handshakes and checkpoint digests where no
 * crypto library is linked. Plain state, no ownership, any thread.
 */
#ifndef BASE_SHA256_H
#define BASE_SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SHA256_BYTES = 32, SHA256_BLOCK_BYTES = 64, SHA256_HEX_BYTES = 65 };

struct sha256 {
    uint32_t state[8];
    uint64_t total_bytes;
    uint8_t block[SHA256_BLOCK_BYTES];
};

void sha256_init(struct sha256 *sha);
void sha256_update(struct sha256 *sha, const void *data, size_t bytes);
void sha256_final(struct sha256 *sha, uint8_t ret_digest[SHA256_BYTES]);

/* All three at once. */
void sha256(const void *data, size_t bytes, uint8_t ret_digest[SHA256_BYTES]);

/* Lower case, with the final 0. */
void sha256_hex(const uint8_t digest[SHA256_BYTES], char ret_text[SHA256_HEX_BYTES]);

struct hmac_sha256 {
    struct sha256 inner;
    struct sha256 outer;
};

void hmac_sha256_init(struct hmac_sha256 *hmac, const void *key, size_t key_bytes);
void hmac_sha256_update(struct hmac_sha256 *hmac, const void *data, size_t bytes);
void hmac_sha256_final(struct hmac_sha256 *hmac, uint8_t ret_mac[SHA256_BYTES]);

/* True if equal, in a time that does not depend on where they differ. */
bool sha256_equal(const uint8_t a[SHA256_BYTES], const uint8_t b[SHA256_BYTES]);

#endif
