#include "common/base/hex.h"

#include "common/base/error.h"

static const char hex_digits[] = "0123456789abcdef";
static const char base64url_digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

void hex_encode(const void *data, size_t size, char *ret)
{
    const uint8_t *bytes = data;
    for (size_t i = 0; i < size; i++) {
        *ret++ = hex_digits[bytes[i] >> 4];
        *ret++ = hex_digits[bytes[i] & 15];
    }
    *ret = '\0';
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

int hex_decode(const char *text, void *ret, size_t size)
{
    uint8_t *bytes = ret;
    for (size_t i = 0; i < size; i++) {
        int high = hex_value(text[2 * i]);
        int low = high < 0 ? -1 : hex_value(text[2 * i + 1]);
        if (low < 0)
            return E_INVALID_ARGUMENT;
        bytes[i] = (uint8_t)(high << 4 | low);
    }
    return text[2 * size] ? E_INVALID_ARGUMENT : 0;
}

void base64url_encode(const void *data, size_t size, char *ret)
{
    const uint8_t *bytes = data;
    uint32_t bits = 0;
    int held = 0;
    for (size_t i = 0; i < size; i++) {
        bits = bits << 8 | bytes[i];
        for (held += 8; held >= 6; held -= 6)
            *ret++ = base64url_digits[bits >> (held - 6) & 63];
    }
    if (held)
        *ret++ = base64url_digits[bits << (6 - held) & 63];
    *ret = '\0';
}

static int base64url_value(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '-' ? 62 : c == '_' ? 63 : -1;
}

int base64url_decode(const char *text, void *ret, size_t max, size_t *ret_size)
{
    uint8_t *bytes = ret;
    uint32_t bits = 0;
    int held = 0;
    size_t size = 0;
    for (; *text; text++) {
        int value = base64url_value(*text);
        if (value < 0)
            return E_INVALID_ARGUMENT;
        bits = bits << 6 | (uint32_t)value;
        held += 6;
        if (held >= 8) {
            held -= 8;
            if (size == max)
                return E_OUT_OF_RANGE;
            bytes[size++] = (uint8_t)(bits >> held);
        }
    }
    if (held == 6 || (bits & ((1u << held) - 1)) != 0)
        return E_INVALID_ARGUMENT;
    *ret_size = size;
    return 0;
}
