/* CRC-32C (Castagnoli, RFC 3720 appendix B.4) for frames and files. crc32c picks the processor's
 * instruction where there is one; crc32c_plain is the table version it is checked against.
 */
#ifndef BASE_CRC32C_H
#define BASE_CRC32C_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Start with crc 0; feed pieces by passing the previous result. */
uint32_t crc32c(uint32_t crc, const void *data, size_t size);
uint32_t crc32c_plain(uint32_t crc, const void *data, size_t size);

/* Whether this processor has the instruction (then crc32c uses it). */
bool crc32c_has_hardware(void);

#endif
