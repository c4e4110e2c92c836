#include "libworker/data/digest.h"

uint64_t digest_bytes(uint64_t hash, const void *data, size_t bytes)
{
    const unsigned char *from = data;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ from[i]) * 1099511628211u;
    return hash;
}

uint64_t digest_pieces(uint64_t hash, const void *data, size_t bytes)
{
    const unsigned char *from = data;
    size_t piece = bytes < DIGEST_PIECE_BYTES ? bytes : DIGEST_PIECE_BYTES;
    size_t pieces = (bytes + DIGEST_PIECE_BYTES - 1) / DIGEST_PIECE_BYTES;
    pieces = pieces < DIGEST_PIECES ? pieces : DIGEST_PIECES;
    for (size_t i = 0; i < pieces; i++)
        hash =
            digest_bytes(hash, from + (pieces > 1 ? (bytes - piece) * i / (pieces - 1) : 0), piece);
    return hash;
}
