#include "common/base/token.h"

#include <stdio.h>
#include <string.h>

#include "common/base/crc32c.h"
#include "common/base/hex.h"
#include "common/base/sha256.h"

enum { SECRET_LENGTH = BASE64URL_LENGTH(TOKEN_SECRET_BYTES), CHECKSUM_LENGTH = 8 };

static const char prefix[] = "mst_";

static bool is_role(const char *role, size_t length)
{
    if (length < 1 || length > TOKEN_ROLE_MAX)
        return false;
    for (size_t i = 0; i < length; i++)
        if (role[i] < 'a' || role[i] > 'z')
            return false;
    return true;
}

int token_compose(const char *role, const uint8_t secret[TOKEN_SECRET_BYTES], char ret[TOKEN_MAX])
{
    if (!is_role(role, strlen(role)))
        return E_INVALID_ARGUMENT;
    char text[SECRET_LENGTH + 1];
    base64url_encode(secret, TOKEN_SECRET_BYTES, text);
    int length = snprintf(ret, TOKEN_MAX, "%s%s_%s", prefix, role, text);
    snprintf(ret + length, TOKEN_MAX - (size_t)length, "%08x", crc32c(0, ret, (size_t)length));
    return 0;
}

static const char pin_mark = '.';

/* How many characters are the token itself. */
static size_t plain_length(const char *text)
{
    const char *mark = strchr(text, pin_mark);
    return mark ? (size_t)(mark - text) : strlen(text);
}

const char *token_pin(const char *text)
{
    const char *mark = strchr(text, pin_mark);
    return mark ? mark + 1 : NULL;
}

int token_plain(const char *text, char ret[TOKEN_MAX])
{
    size_t length = plain_length(text);
    if (length >= TOKEN_MAX)
        return E_OUT_OF_RANGE;
    memcpy(ret, text, length);
    ret[length] = '\0';
    return 0;
}

static bool is_pin(const char *pin)
{
    uint8_t bytes[TOKEN_HASH_BYTES];
    size_t size;
    return strlen(pin) == TOKEN_PIN_LENGTH && !base64url_decode(pin, bytes, sizeof(bytes), &size);
}

int token_check(const char *text, char ret_role[TOKEN_ROLE_MAX + 1], struct error *err)
{
    char plain[TOKEN_MAX] = "";
    const char *pin = token_pin(text);
    if (token_plain(text, plain))
        return error_set(err, E_UNAUTHENTICATED, "this is not a Muster token");
    if (pin && !is_pin(pin))
        return error_set(err, E_UNAUTHENTICATED,
                         "the token is not complete: there are %d characters after its dot",
                         TOKEN_PIN_LENGTH);
    size_t length = strlen(plain);
    const char *role = plain + sizeof(prefix) - 1;
    const char *end = NULL;
    if (strncmp(plain, prefix, sizeof(prefix) - 1) == 0)
        end = strchr(role, '_');
    if (!end || !is_role(role, (size_t)(end - role)))
        return error_set(err, E_UNAUTHENTICATED, "this is not a Muster token");
    if (strlen(end + 1) != SECRET_LENGTH + CHECKSUM_LENGTH)
        return error_set(err, E_UNAUTHENTICATED, "the token is not complete");
    size_t covered = length - CHECKSUM_LENGTH;
    char checksum[CHECKSUM_LENGTH + 1];
    snprintf(checksum, sizeof(checksum), "%08x", crc32c(0, plain, covered));
    if (strcmp(plain + covered, checksum) != 0)
        return error_set(err, E_UNAUTHENTICATED, "the token is mistyped: its checksum is wrong");
    if (ret_role) {
        memcpy(ret_role, role, (size_t)(end - role));
        ret_role[end - role] = '\0';
    }
    return 0;
}

void token_hash(const char *text, uint8_t ret[TOKEN_HASH_BYTES])
{
    sha256(text, plain_length(text), ret);
}

bool bytes_equal_constant_time(const void *a, const void *b, size_t size)
{
    const volatile uint8_t *x = a, *y = b;
    uint8_t difference = 0;
    for (size_t i = 0; i < size; i++)
        difference |= x[i] ^ y[i];
    return difference == 0;
}
