#include "common/base/sha256.h"

#include <string.h>

/* FIPS 180-4, 4.2.2. */
static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotr(uint32_t x, int n)
{
    return (x >> n) | (x << (32 - n));
}

static uint32_t load32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void store32(uint8_t *p, uint32_t x)
{
    p[0] = (uint8_t)(x >> 24);
    p[1] = (uint8_t)(x >> 16);
    p[2] = (uint8_t)(x >> 8);
    p[3] = (uint8_t)x;
}

static void expand(const uint8_t *block, uint32_t w[64])
{
    for (int i = 0; i < 16; i++)
        w[i] = load32(block + (ptrdiff_t)4 * i);
    for (int i = 16; i < 64; i++) {
        uint32_t s0 = rotr(w[i - 15], 7) ^ rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
        uint32_t s1 = rotr(w[i - 2], 17) ^ rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
}

/* FIPS 180-4, 6.2.2; a..h are v[0..7]. */
static void compress(uint32_t state[8], const uint8_t *block)
{
    uint32_t w[64], v[8];
    expand(block, w);
    memcpy(v, state, sizeof(v));
    for (int i = 0; i < 64; i++) {
        uint32_t s1 = rotr(v[4], 6) ^ rotr(v[4], 11) ^ rotr(v[4], 25);
        uint32_t choice = (v[4] & v[5]) ^ (~v[4] & v[6]);
        uint32_t t1 = v[7] + s1 + choice + round_constants[i] + w[i];
        uint32_t s0 = rotr(v[0], 2) ^ rotr(v[0], 13) ^ rotr(v[0], 22);
        uint32_t majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
        memmove(v + 1, v, 7 * sizeof(v[0]));
        v[4] += t1;
        v[0] = t1 + s0 + majority;
    }
    for (int i = 0; i < 8; i++)
        state[i] += v[i];
}

void sha256_init(struct sha256 *sha)
{
    static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(sha->state, start, sizeof(start));
    sha->total_bytes = 0;
}

void sha256_update(struct sha256 *sha, const void *data, size_t bytes)
{
    const uint8_t *in = data;
    size_t held = sha->total_bytes % SHA256_BLOCK_BYTES;
    sha->total_bytes += bytes;
    while (bytes > 0) {
        if (held == 0 && bytes >= SHA256_BLOCK_BYTES) {
            compress(sha->state, in);
            in += SHA256_BLOCK_BYTES;
            bytes -= SHA256_BLOCK_BYTES;
            continue;
        }
        size_t take = SHA256_BLOCK_BYTES - held;
        if (take > bytes)
            take = bytes;
        memcpy(sha->block + held, in, take);
        in += take;
        bytes -= take;
        held += take;
        if (held == SHA256_BLOCK_BYTES) {
            compress(sha->state, sha->block);
            held = 0;
        }
    }
}

void sha256_final(struct sha256 *sha, uint8_t ret_digest[SHA256_BYTES])
{
    static const uint8_t padding[SHA256_BLOCK_BYTES] = {0x80};
    uint64_t bits = sha->total_bytes * 8;
    size_t held = sha->total_bytes % SHA256_BLOCK_BYTES;
    uint8_t length[8];
    store32(length, (uint32_t)(bits >> 32));
    store32(length + 4, (uint32_t)bits);
    sha256_update(sha, padding, (held < 56 ? 56 : 120) - held);
    sha256_update(sha, length, sizeof(length));
    for (int i = 0; i < 8; i++)
        store32(ret_digest + (ptrdiff_t)4 * i, sha->state[i]);
}

void sha256(const void *data, size_t bytes, uint8_t ret_digest[SHA256_BYTES])
{
    struct sha256 sha;
    sha256_init(&sha);
    sha256_update(&sha, data, bytes);
    sha256_final(&sha, ret_digest);
}

void sha256_hex(const uint8_t digest[SHA256_BYTES], char ret_text[SHA256_HEX_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < SHA256_BYTES; i++) {
        ret_text[2 * i] = digits[digest[i] >> 4];
        ret_text[2 * i + 1] = digits[digest[i] & 15];
    }
    ret_text[SHA256_HEX_BYTES - 1] = '\0';
}

void hmac_sha256_init(struct hmac_sha256 *hmac, const void *key, size_t key_bytes)
{
    uint8_t pad[SHA256_BLOCK_BYTES] = {0};
    if (key_bytes > sizeof(pad))
        sha256(key, key_bytes, pad);
    else if (key_bytes > 0)
        memcpy(pad, key, key_bytes);
    for (size_t i = 0; i < sizeof(pad); i++)
        pad[i] ^= 0x36;
    sha256_init(&hmac->inner);
    sha256_update(&hmac->inner, pad, sizeof(pad));
    for (size_t i = 0; i < sizeof(pad); i++)
        pad[i] ^= 0x36 ^ 0x5c;
    sha256_init(&hmac->outer);
    sha256_update(&hmac->outer, pad, sizeof(pad));
}

void hmac_sha256_update(struct hmac_sha256 *hmac, const void *data, size_t bytes)
{
    sha256_update(&hmac->inner, data, bytes);
}

void hmac_sha256_final(struct hmac_sha256 *hmac, uint8_t ret_mac[SHA256_BYTES])
{
    uint8_t digest[SHA256_BYTES];
    sha256_final(&hmac->inner, digest);
    sha256_update(&hmac->outer, digest, sizeof(digest));
    sha256_final(&hmac->outer, ret_mac);
}

bool sha256_equal(const uint8_t a[SHA256_BYTES], const uint8_t b[SHA256_BYTES])
{
    uint8_t difference = 0;
    for (int i = 0; i < SHA256_BYTES; i++)
        difference |= (uint8_t)(a[i] ^ b[i]);
    return difference == 0;
}
