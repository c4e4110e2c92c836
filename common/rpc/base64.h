/* Bytes as proto3 JSON writes them: standard base64 with padding (RFC 4648 section 4). Reads both
 * alphabets, with and without padding. No state; any thread.
 */
#ifndef RPC_BASE64_H
#define RPC_BASE64_H

#include <stddef.h>

/* Characters of `size` bytes, without the NUL. */
#define BASE64_LENGTH(size) (((size) + 2) / 3 * 4)

void base64_encode(const void *data, size_t size, char *ret); /* BASE64_LENGTH(size) + 1 bytes */

/* `ret` has room for strlen(text) / 4 * 3 + 3 bytes. E_INVALID_ARGUMENT. */
int base64_decode(const char *text, void *ret, size_t *ret_size);

#endif
