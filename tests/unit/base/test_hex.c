#include <criterion/criterion.h>
#include <string.h>

#include "common/base/error.h"
#include "common/base/hex.h"
#include "common/base/rng.h"

Test(hex, bytes_to_text_and_back)
{
    char text[17];
    unsigned char bytes[8];
    hex_encode("\x00\x01\xab\xff", 4, text);
    cr_assert_str_eq(text, "0001abff");
    cr_assert_eq(hex_decode("0001ABff", bytes, 4), 0);
    cr_assert_eq(memcmp(bytes, "\x00\x01\xab\xff", 4), 0);
    hex_encode("", 0, text);
    cr_assert_str_eq(text, "");
}

Test(hex, refuses_other_lengths_and_characters)
{
    unsigned char bytes[8];
    cr_assert_eq(hex_decode("", bytes, 1), E_INVALID_ARGUMENT);
    cr_assert_eq(hex_decode("a", bytes, 1), E_INVALID_ARGUMENT);
    cr_assert_eq(hex_decode("abc", bytes, 1), E_INVALID_ARGUMENT);
    cr_assert_eq(hex_decode("0g", bytes, 1), E_INVALID_ARGUMENT);
    cr_assert_eq(hex_decode(" 0", bytes, 1), E_INVALID_ARGUMENT);
    cr_assert_eq(hex_decode("", bytes, 0), 0);
}

/* RFC 4648 section 10, without padding. */
Test(base64url, known_vectors)
{
    static const char *const plain[] = {"", "f", "fo", "foo", "foob", "fooba", "foobar"};
    static const char *const coded[] = {"", "Zg", "Zm8", "Zm9v", "Zm9vYg", "Zm9vYmE", "Zm9vYmFy"};
    for (int i = 0; i < 7; i++) {
        char text[16], back[8];
        size_t size;
        base64url_encode(plain[i], strlen(plain[i]), text);
        cr_assert_str_eq(text, coded[i]);
        cr_assert_eq(strlen(text), BASE64URL_LENGTH(strlen(plain[i])));
        cr_assert_eq(base64url_decode(coded[i], back, sizeof(back), &size), 0);
        cr_assert_eq(size, strlen(plain[i]));
        cr_assert_eq(memcmp(back, plain[i], size), 0);
    }
}

Test(base64url, all_bytes_survive)
{
    unsigned char bytes[256], back[256];
    char text[BASE64URL_LENGTH(256) + 1];
    size_t size;
    for (int i = 0; i < 256; i++)
        bytes[i] = (unsigned char)i;
    for (size_t length = 0; length <= 256; length++) {
        base64url_encode(bytes, length, text);
        cr_assert_null(strpbrk(text, "+/="));
        cr_assert_eq(base64url_decode(text, back, length, &size), 0);
        cr_assert_eq(size, length);
        cr_assert_eq(memcmp(back, bytes, length), 0);
    }
}

Test(base64url, refuses_what_no_encoder_writes)
{
    char back[8];
    size_t size = 77;
    cr_assert_eq(base64url_decode("Z", back, 8, &size), E_INVALID_ARGUMENT);
    cr_assert_eq(base64url_decode("Zm9vY", back, 8, &size), E_INVALID_ARGUMENT);
    cr_assert_eq(base64url_decode("Zh", back, 8, &size), E_INVALID_ARGUMENT, "stray bits");
    cr_assert_eq(base64url_decode("Zg==", back, 8, &size), E_INVALID_ARGUMENT);
    cr_assert_eq(base64url_decode("Zm+v", back, 8, &size), E_INVALID_ARGUMENT);
    cr_assert_eq(base64url_decode("Zm9vYmFy", back, 5, &size), E_OUT_OF_RANGE);
    cr_assert_eq(size, 77);
}
