/* Bearer tokens: `mst_<role>_<43 base64url characters of 32 random bytes><8 hex digits of
 * CRC-32C>`. The checksum covers everything before it, so that a mistyped or cut token can be
 * distinguished from a revoked one without a lookup. Only the SHA-256 of a token is ever stored. No
 * I/O: randomness is an argument.
 *
 * Tokens are given out with the pin of the cluster's key after a dot (common/env/tls_file.h). The
 * pin is neither secret nor part of the token: it identifies the server to which the token may be
 * sent.
 */
#ifndef BASE_TOKEN_H
#define BASE_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

enum {
    TOKEN_SECRET_BYTES = 32,
    TOKEN_HASH_BYTES = 32,
    TOKEN_ROLE_MAX = 15, /* lower-case letters */
    TOKEN_MAX = 80,      /* buffer for any token with its NUL */
    TOKEN_ID_MAX = 12,   /* hex digits of its hash that name it; no secret */
    TOKEN_PIN_LENGTH = 43,
    TOKEN_TEXT_MAX = TOKEN_MAX + 1 + TOKEN_PIN_LENGTH, /* with its pin */
};

/* Compose a token. E_INVALID_ARGUMENT if the role is not 1..TOKEN_ROLE_MAX lower-case letters. */
int token_compose(const char *role, const uint8_t secret[TOKEN_SECRET_BYTES], char ret[TOKEN_MAX]);

/* E_UNAUTHENTICATED with the reason if it cannot be a token, with or without a pin; else its role
 * (may be NULL). */
int token_check(const char *text, char ret_role[TOKEN_ROLE_MAX + 1], struct error *err);

/* The pin after it, or NULL. */
const char *token_pin(const char *text);
/* Without its pin. E_OUT_OF_RANGE if it is longer than tokens are. */
int token_plain(const char *text, char ret[TOKEN_MAX]);

/* The stored and searched value: the pin is not part of it. */
void token_hash(const char *text, uint8_t ret[TOKEN_HASH_BYTES]);

/* Compares all bytes whatever their values, so that the time reveals nothing. */
bool bytes_equal_constant_time(const void *a, const void *b, size_t size);

#endif
