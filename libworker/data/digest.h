/* Digests that distinguish data sets (FNV-1a). Not for secrets. Pure; any thread. */
#ifndef DATA_DIGEST_H
#define DATA_DIGEST_H

#include <stddef.h>
#include <stdint.h>

/* Of large data at most DIGEST_PIECES pieces of DIGEST_PIECE_BYTES count, spread evenly from the
 * first to the last. It costs the same for any size. Data that differ only between the pieces have
 * the same digest. */
enum { DIGEST_PIECES = 64, DIGEST_PIECE_BYTES = 4096 };
static const uint64_t DIGEST_OF_NOTHING = 14695981039346656037u;

uint64_t digest_bytes(uint64_t hash, const void *data, size_t bytes);  /* all of them */
uint64_t digest_pieces(uint64_t hash, const void *data, size_t bytes); /* as above */

#endif
