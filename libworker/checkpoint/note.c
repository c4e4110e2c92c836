#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <worker/error.h>

#include "common/base/crc32c.h"
#include "common/base/str.h"
#include "libworker/checkpoint/file.h"
#include "libworker/checkpoint/note.h"

struct note_head {
    uint64_t bytes, header_bytes;
    uint32_t crc, n_parts;
    uint32_t digest; /* of this with 0 here, and of the parts */
    uint32_t zero;
};

void note_name(int rank, char ret[NOTE_NAME_BYTES])
{
    (void)str_printf(ret, NOTE_NAME_BYTES, "rank-%05d.note", rank);
}

static uint32_t digest_of(struct note_head head, const struct note_part *parts)
{
    head.digest = 0;
    return crc32c(crc32c(0, &head, sizeof(head)), parts, head.n_parts * sizeof(*parts));
}

int note_write(int folder, int rank, const struct note *note, struct error *err)
{
    char name[NOTE_NAME_BYTES], draft[NOTE_NAME_BYTES];
    note_name(rank, name);
    (void)str_printf(draft, sizeof(draft), ".%s", name);
    struct note_head head = {note->bytes, note->header_bytes, note->crc, note->n_parts, 0, 0};
    size_t size = note->n_parts * sizeof(*note->parts);
    char *bytes = malloc(sizeof(head) + size);
    if (!bytes)
        return error_set(err, WK_ENOMEM, "no memory for a note of %u parts", note->n_parts);
    head.digest = digest_of(head, note->parts);
    memcpy(bytes, &head, sizeof(head));
    if (size)
        memcpy(bytes + sizeof(head), note->parts, size);
    int rc = file_write(folder, draft, bytes, sizeof(head) + size, err);
    free(bytes);
    if (!rc && renameat(folder, draft, folder, name))
        rc = error_errno(err, errno, "renaming %s", draft);
    return rc;
}

int note_read(int folder, int rank, struct note *ret, struct error *err)
{
    char name[NOTE_NAME_BYTES], *bytes;
    size_t size;
    note_name(rank, name);
    if (faccessat(folder, name, F_OK, 0))
        return WK_ENOTFOUND;
    size_t most = sizeof(struct note_head) + (size_t)NOTE_PARTS_MAX * sizeof(struct note_part);
    int rc = file_read(folder, name, most, &bytes, &size, err);
    if (rc)
        return rc;
    struct note_head head = {0};
    if (size >= sizeof(head))
        memcpy(&head, bytes, sizeof(head));
    size_t parts = size >= sizeof(head) ? size - sizeof(head) : 0;
    struct note note = {head.bytes, head.header_bytes, head.crc, head.n_parts, malloc(parts + 1)};
    if (!note.parts)
        rc = error_set(err, WK_ENOMEM, "no memory for a note");
    else if (size < sizeof(head) || head.n_parts > NOTE_PARTS_MAX ||
             parts != head.n_parts * sizeof(*note.parts))
        rc = error_set(err, WK_EIO, "%s is damaged", name);
    if (!rc) {
        memcpy(note.parts, bytes + sizeof(head), parts);
        if (digest_of(head, note.parts) != head.digest)
            rc = error_set(err, WK_EIO, "%s is damaged", name);
    }
    free(bytes);
    if (rc)
        note_fini(&note);
    else
        *ret = note;
    return rc;
}

void note_fini(struct note *note)
{
    free(note->parts);
    *note = (struct note){0};
}
