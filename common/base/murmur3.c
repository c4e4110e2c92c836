#include "common/base/murmur3.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/str.h"

static const uint64_t factors[2] = {0x87c37b91114253d5, 0x4cf5ad432745937f};

static uint64_t rotated(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

static uint64_t word(const unsigned char *from, size_t bytes)
{
    uint64_t ret = 0;
    memcpy(&ret, from, bytes);
    return ret;
}

static uint64_t mixed_first(uint64_t k)
{
    return rotated(k * factors[0], 31) * factors[1];
}

static uint64_t mixed_second(uint64_t k)
{
    return rotated(k * factors[1], 33) * factors[0];
}

static uint64_t avalanche(uint64_t k)
{
    k = (k ^ k >> 33) * 0xff51afd7ed558ccd;
    k = (k ^ k >> 33) * 0xc4ceb9fe1a85ec53;
    return k ^ k >> 33;
}

void murmur3(const void *data, size_t bytes, uint64_t ret[2])
{
    const unsigned char *at = data;
    uint64_t first = 0, second = 0;
    size_t left = bytes;
    for (; left >= 16; left -= 16, at += 16) {
        first = rotated(first ^ mixed_first(word(at, 8)), 27) + second;
        first = first * 5 + 0x52dce729;
        second = rotated(second ^ mixed_second(word(at + 8, 8)), 31) + first;
        second = second * 5 + 0x38495ab5;
    }
    if (left > 8)
        second ^= mixed_second(word(at + 8, left - 8));
    if (left > 0)
        first ^= mixed_first(word(at, left < 8 ? left : 8));
    first ^= bytes;
    second ^= bytes;
    first += second;
    second += first;
    first = avalanche(first);
    second = avalanche(second);
    ret[0] = first + second;
    ret[1] = second + ret[0];
}

void murmur3_text(const void *data, size_t bytes, char ret_text[MURMUR3_TEXT_BYTES])
{
    uint64_t digest[2];
    murmur3(data, bytes, digest);
    (void)str_printf(ret_text, MURMUR3_TEXT_BYTES, "%016" PRIx64 "%016" PRIx64, digest[0],
                     digest[1]);
}
