#include "common/rpc/base64.h"

#include <stdint.h>
#include <string.h>

#include "common/base/error.h"

static const char alphabet[65] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_encode(const void *data, size_t size, char *ret)
{
    const unsigned char *in = data;
    for (size_t i = 0; i < size; i += 3) {
        size_t left = size - i;
        uint32_t group = (uint32_t)in[i] << 16 | (left > 1 ? (uint32_t)in[i + 1] << 8 : 0) |
                         (left > 2 ? in[i + 2] : 0);
        *ret++ = alphabet[group >> 18];
        *ret++ = alphabet[group >> 12 & 63];
        *ret++ = left > 1 ? alphabet[group >> 6 & 63] : '=';
        *ret++ = left > 2 ? alphabet[group & 63] : '=';
    }
    *ret = '\0';
}

static int digit_of(char c)
{
    if (c == '-')
        return 62;
    if (c == '_')
        return 63;
    const char *at = c ? strchr(alphabet, c) : NULL;
    return at ? (int)(at - alphabet) : -1;
}

int base64_decode(const char *text, void *ret, size_t *ret_size)
{
    size_t length = strlen(text);
    size_t digits = length;
    while (digits > 0 && length - digits < 2 && text[digits - 1] == '=')
        digits--;
    if (digits % 4 == 1 || (digits != length && length % 4 != 0))
        return E_INVALID_ARGUMENT;
    unsigned char *out = ret;
    uint32_t bits = 0;
    int count = 0;
    for (size_t i = 0; i < digits; i++) {
        int digit = digit_of(text[i]);
        if (digit < 0)
            return E_INVALID_ARGUMENT;
        bits = bits << 6 | (uint32_t)digit;
        count += 6;
        if (count >= 8) {
            count -= 8;
            *out++ = (unsigned char)(bits >> count);
        }
    }
    *ret_size = (size_t)(out - (unsigned char *)ret);
    return 0;
}
