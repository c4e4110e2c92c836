/* Bytes as text: lower-case hexadecimal, and base64url without padding (RFC 4648 section 5). */
#ifndef BASE_HEX_H
#define BASE_HEX_H

#include <stddef.h>
#include <stdint.h>

/* 2 * size characters and a NUL. */
void hex_encode(const void *data, size_t size, char *ret);

/* Exactly 2 * size digits of either case, or E_INVALID_ARGUMENT with `ret` unspecified. */
int hex_decode(const char *text, void *ret, size_t size);

/* Characters of `size` bytes in base64url, without the NUL. */
#define BASE64URL_LENGTH(size) (((size)*4 + 2) / 3)

void base64url_encode(const void *data, size_t size, char *ret); /* BASE64URL_LENGTH + NUL */

/* Decodes at most `max` bytes. E_INVALID_ARGUMENT: foreign characters, impossible length, stray
 * bits at the end; E_OUT_OF_RANGE: more than max. */
int base64url_decode(const char *text, void *ret, size_t max, size_t *ret_size);

#endif
