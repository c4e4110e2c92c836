/* The note that a rank leaves beside its shard for the rank that makes the manifest: which part of
 * which tensor is in it, with digests. Lives in the temporary folder only, between ranks of one
 * build.
 *
 * Plain data; any thread. A note appears whole (written under another name, then renamed).
 */
#ifndef CHECKPOINT_NOTE_H
#define CHECKPOINT_NOTE_H

#include <stdint.h>

#include "common/base/error.h"

enum { NOTE_NAME_BYTES = 48, NOTE_PARTS_MAX = 1 << 22 };

struct note_part {
    uint32_t tensor; /* place in the table that all ranks share */
    uint32_t crc;
    int64_t start, count;
};

struct note {
    uint64_t bytes, header_bytes; /* of the shard's file */
    uint32_t crc;                 /* of its header */
    uint32_t n_parts;
    struct note_part *parts; /* malloc'd; note_fini */
};

void note_name(int rank, char ret[NOTE_NAME_BYTES]);
int note_write(int folder, int rank, const struct note *note, struct error *err);

/* WK_ENOTFOUND: not there yet. WK_EIO: damaged. */
int note_read(int folder, int rank, struct note *ret, struct error *err);
void note_fini(struct note *note);

#endif
