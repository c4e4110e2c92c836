#include "common/base/crc32c.h"

#include <string.h>

/* One nibble at a time: 16 entries stay in one cache line and need no start-up. The polynomial is
 * 0x1EDC6F41, reflected. */
static const uint32_t table[16] = {
    0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
    0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9, 0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
};

uint32_t crc32c_plain(uint32_t crc, const void *data, size_t size)
{
    const uint8_t *bytes = data;
    crc = ~crc;
    for (size_t i = 0; i < size; i++) {
        crc ^= bytes[i];
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    return ~crc;
}

#if defined(__x86_64__)

bool crc32c_has_hardware(void)
{
    return __builtin_cpu_supports("sse4.2");
}

__attribute__((target("sse4.2"))) static uint32_t crc32c_hardware(uint32_t crc, const void *data,
                                                                  size_t size)
{
    const uint8_t *bytes = data;
    uint64_t wide = ~crc;
    for (; size >= 8; size -= 8, bytes += 8) {
        uint64_t word;
        memcpy(&word, bytes, sizeof(word));
        wide = __builtin_ia32_crc32di(wide, word);
    }
    uint32_t narrow = (uint32_t)wide;
    for (; size; size--)
        narrow = __builtin_ia32_crc32qi(narrow, *bytes++);
    return ~narrow;
}

#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>

bool crc32c_has_hardware(void)
{
    return true;
}

static uint32_t crc32c_hardware(uint32_t crc, const void *data, size_t size)
{
    const uint8_t *bytes = data;
    crc = ~crc;
    for (; size >= 8; size -= 8, bytes += 8) {
        uint64_t word;
        memcpy(&word, bytes, sizeof(word));
        crc = __crc32cd(crc, word);
    }
    for (; size; size--)
        crc = __crc32cb(crc, *bytes++);
    return ~crc;
}

#else

bool crc32c_has_hardware(void)
{
    return false;
}

static uint32_t crc32c_hardware(uint32_t crc, const void *data, size_t size)
{
    return crc32c_plain(crc, data, size);
}

#endif

uint32_t crc32c(uint32_t crc, const void *data, size_t size)
{
    return crc32c_has_hardware() ? crc32c_hardware(crc, data, size) : crc32c_plain(crc, data, size);
}
