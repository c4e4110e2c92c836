/* MurmurHash3, x64, 128 bits (Austin Appleby, https://github.com/aappleby/smhasher): a fast digest
 * that distinguishes versions of a text. Not for secrets: an attacker who chooses the text can find
 * another with the same digest. Pure; any thread. */
#ifndef BASE_MURMUR3_H
#define BASE_MURMUR3_H

#include <stddef.h>
#include <stdint.h>

enum { MURMUR3_TEXT_BYTES = 33 };

void murmur3(const void *data, size_t bytes, uint64_t ret[2]);

/* Lower case hex, with the final 0. */
void murmur3_text(const void *data, size_t bytes, char ret_text[MURMUR3_TEXT_BYTES]);

#endif
