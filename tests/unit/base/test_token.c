#include <criterion/criterion.h>
#include <string.h>

#include "common/base/hex.h"
#include "common/base/token.h"

static void make(char *ret, const char *role)
{
    uint8_t secret[TOKEN_SECRET_BYTES];
    for (int i = 0; i < TOKEN_SECRET_BYTES; i++)
        secret[i] = (uint8_t)(i * 7);
    cr_assert_eq(token_compose(role, secret, ret), 0);
}

Test(token, what_is_composed_is_accepted_and_names_its_role)
{
    char text[TOKEN_MAX], role[TOKEN_ROLE_MAX + 1];
    make(text, "admin");
    cr_assert_eq(strncmp(text, "mst_admin_", 10), 0);
    cr_assert_eq(token_check(text, role, NULL), 0);
    cr_assert_str_eq(role, "admin");
    make(text, "abcdefghijklmno");
    cr_assert_eq(token_check(text, NULL, NULL), 0);
    cr_assert_lt(strlen(text), TOKEN_MAX);
}

Test(token, roles_are_short_lower_case_words)
{
    char text[TOKEN_MAX];
    uint8_t secret[TOKEN_SECRET_BYTES] = {0};
    static const char *const wrong[] = {"", "Admin", "a_b", "a1", "abcdefghijklmnop"};
    for (int i = 0; i < 5; i++)
        cr_assert_eq(token_compose(wrong[i], secret, text), E_INVALID_ARGUMENT);
}

Test(token, any_changed_or_missing_character_is_noticed)
{
    char text[TOKEN_MAX];
    make(text, "worker");
    size_t length = strlen(text);
    for (size_t i = 0; i < length; i++) {
        char saved = text[i];
        text[i] = saved == 'x' ? 'y' : 'x';
        cr_assert_eq(token_check(text, NULL, NULL), E_UNAUTHENTICATED, "at %zu", i);
        text[i] = '\0';
        cr_assert_eq(token_check(text, NULL, NULL), E_UNAUTHENTICATED);
        text[i] = saved;
    }
    struct error err;
    char longer[TOKEN_MAX * 2];
    memset(longer, 'a', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    cr_assert_eq(token_check(longer, NULL, &err), E_UNAUTHENTICATED);
    cr_assert_str_eq(err.text, "this is not a Muster token");
}

Test(token, the_hash_is_sha256_of_the_text)
{
    uint8_t hash[TOKEN_HASH_BYTES];
    char hex[2 * TOKEN_HASH_BYTES + 1];
    token_hash("abc", hash);
    hex_encode(hash, sizeof(hash), hex);
    cr_assert_str_eq(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

Test(token, constant_time_comparison_compares_everything)
{
    uint8_t a[32] = {0}, b[32] = {0};
    cr_assert(bytes_equal_constant_time(a, b, 32));
    for (int i = 0; i < 32; i++) {
        b[i] = 1;
        cr_assert_not(bytes_equal_constant_time(a, b, 32));
        b[i] = 0;
    }
    cr_assert(bytes_equal_constant_time(a, b, 0));
}
