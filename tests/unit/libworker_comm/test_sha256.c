/* SHA-256 against FIPS 180-4's examples, HMAC against RFC 4231's. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/sha256.h"

static void expect_digest(const void *data, size_t bytes, const char *expected)
{
    uint8_t digest[SHA256_BYTES];
    char text[SHA256_HEX_BYTES];
    sha256(data, bytes, digest);
    sha256_hex(digest, text);
    cr_assert_str_eq(text, expected);
}

Test(sha256, matches_fips_examples)
{
    expect_digest("", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    expect_digest("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    const char *two = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    expect_digest(two, strlen(two),
                  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    char *million = malloc(1000000);
    memset(million, 'a', 1000000);
    expect_digest(million, 1000000,
                  "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(million);
}

Test(sha256, does_not_depend_on_how_the_input_is_cut)
{
    uint8_t data[300], whole[SHA256_BYTES], parts[SHA256_BYTES];
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t)(i * 7);
    for (size_t bytes = 0; bytes <= sizeof(data); bytes++) {
        sha256(data, bytes, whole);
        for (size_t step = 1; step < 130; step += 21) {
            struct sha256 sha;
            sha256_init(&sha);
            for (size_t at = 0; at < bytes; at += step)
                sha256_update(&sha, data + at, bytes - at < step ? bytes - at : step);
            sha256_final(&sha, parts);
            cr_assert(sha256_equal(whole, parts));
        }
    }
}

static void expect_mac(const void *key, size_t key_bytes, const void *data, size_t bytes,
                       const char *expected)
{
    struct hmac_sha256 hmac;
    uint8_t mac[SHA256_BYTES];
    char text[SHA256_HEX_BYTES];
    hmac_sha256_init(&hmac, key, key_bytes);
    hmac_sha256_update(&hmac, data, bytes);
    hmac_sha256_final(&hmac, mac);
    sha256_hex(mac, text);
    cr_assert_str_eq(text, expected);
}

Test(hmac_sha256, matches_rfc_4231)
{
    uint8_t key[131], data[50];
    memset(key, 0x0b, 20);
    expect_mac(key, 20, "Hi There", 8,
               "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    expect_mac("Jefe", 4, "what do ya want for nothing?", 28,
               "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, 131);
    memset(data, 0xdd, 50);
    expect_mac(key, 20, data, 50,
               "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
    const char *large = "Test Using Larger Than Block-Size Key - Hash Key First";
    expect_mac(key, 131, large, strlen(large),
               "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}
