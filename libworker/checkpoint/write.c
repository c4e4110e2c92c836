#include "libworker/checkpoint/write.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <worker/error.h>

#include "common/base/crc32c.h"
#include "common/base/str.h"
#include "libworker/checkpoint/file.h"
#include "libworker/checkpoint/list.h"
#include "libworker/checkpoint/manifest.h"
#include "libworker/checkpoint/note.h"
#include "libworker/checkpoint/safetensors.h"
#include "libworker/device/reach.h"

enum { CHUNK_BYTES = 4 << 20 }; /* one part, one digest: a reader reads whole parts */
enum { SHARD_NAME_BYTES = 48, SHARD_POLL_US = 10000 };

struct draft {
    const struct checkpoint_write *what;
    int shards;                          /* files of tensors; state.json follows them */
    char path[CHECKPOINT_PATH_MAX];      /* final */
    char temporary[CHECKPOINT_PATH_MAX]; /* until renamed */
    char older[CHECKPOINT_PATH_MAX];     /* where the one it replaced is; "" = nowhere */
    int folder;                          /* open on the temporary one */
    struct note note;                    /* of the own shard */
    size_t parts_room;
    struct manifest manifest;
};

static void shard_name(const struct draft *draft, int rank, char ret[SHARD_NAME_BYTES])
{
    (void)str_printf(ret, SHARD_NAME_BYTES, "rank-%05d-of-%05d.safetensors", rank, draft->shards);
}

static int add_part(struct draft *draft, const struct note_part *part, struct error *err)
{
    struct note *note = &draft->note;
    if (note->n_parts == draft->parts_room) {
        size_t room = 2 * draft->parts_room + 64;
        struct note_part *parts = realloc(note->parts, room * sizeof(*parts));
        if (!parts || room > NOTE_PARTS_MAX) {
            free(parts);
            note->parts = parts ? NULL : note->parts;
            return error_set(err, WK_ENOMEM, "no memory for %zu parts", room);
        }
        note->parts = parts;
        draft->parts_room = room;
    }
    note->parts[note->n_parts++] = *part;
    return 0;
}

static int write_data(struct draft *draft, int fd, int index, struct error *err)
{
    const struct checkpoint_tensor *tensor = &draft->what->tensors[index];
    size_t element = wk_dtype_bytes(tensor->dtype);
    bool direct = reach_is_direct(tensor->queue);
    char *room = direct ? NULL : malloc(CHUNK_BYTES);
    int rc = direct || room ? 0 : error_set(err, WK_ENOMEM, "no memory for a part");
    for (size_t done = 0, size; done < tensor->bytes && !rc; done += size) {
        const char *from = (const char *)tensor->data + done;
        size = tensor->bytes - done < CHUNK_BYTES ? tensor->bytes - done : CHUNK_BYTES;
        struct note_part part = {
            .tensor = (uint32_t)index,
            .start = tensor->first + (int64_t)(done / element),
            .count = (int64_t)(size / element),
        };
        if (room)
            rc = reach_read(tensor->queue, room, from, size, err);
        from = room ? room : from;
        part.crc = rc ? 0 : crc32c(0, from, size);
        if (!rc)
            rc = file_append(fd, from, size, err);
        if (!rc)
            rc = add_part(draft, &part, err);
    }
    free(room);
    return rc;
}

static bool is_whole(const struct checkpoint_tensor *tensor)
{
    size_t count = 1;
    for (int i = 0; i < tensor->dims; i++)
        count *= (size_t)tensor->shape[i];
    return tensor->bytes == count * wk_dtype_bytes(tensor->dtype);
}

static int shard_header(struct draft *draft, struct buf *out, struct error *err)
{
    int n = draft->what->n_tensors, held = 0;
    struct safetensors_entry *entries = calloc((size_t)n + 1, sizeof(*entries));
    if (!entries)
        return error_set(err, WK_ENOMEM, "no memory for the header of %d tensors", n);
    for (int i = 0; i < n; i++) {
        const struct checkpoint_tensor *tensor = &draft->what->tensors[i];
        if (!tensor->bytes)
            continue;
        struct safetensors_entry *entry = &entries[held++];
        *entry = (struct safetensors_entry){
            .name = tensor->name,
            .dtype = tensor->dtype,
            .dims = 1,
            .shape = {(int64_t)(tensor->bytes / wk_dtype_bytes(tensor->dtype))},
            .bytes = tensor->bytes,
        };
        if (!is_whole(tensor))
            continue; /* a slice of the flattened tensor */
        entry->dims = tensor->dims;
        memcpy(entry->shape, tensor->shape, sizeof(tensor->shape));
    }
    int rc = safetensors_write_header(entries, held, out);
    free(entries);
    if (rc)
        return error_set(err, rc, "no memory for the header of %d tensors", n);
    return 0;
}

static int write_tensors(struct draft *draft, int fd, struct error *err)
{
    struct buf header = {0};
    int rc = shard_header(draft, &header, err);
    if (!rc)
        rc = file_append(fd, header.data, header.size, err);
    draft->note.bytes = draft->note.header_bytes = header.size;
    draft->note.crc = rc ? 0 : crc32c(0, header.data, header.size);
    buf_fini(&header);
    for (int i = 0; i < draft->what->n_tensors && !rc; i++) {
        rc = write_data(draft, fd, i, err);
        draft->note.bytes += draft->what->tensors[i].bytes;
    }
    if (!rc && fsync(fd))
        rc = error_errno(err, errno, "syncing");
    return rc;
}

static int write_shard(struct draft *draft, struct error *err)
{
    char name[SHARD_NAME_BYTES];
    shard_name(draft, draft->what->about->rank, name);
    int fd = openat(draft->folder, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return error_errno(err, errno, "%s", name);
    int rc = write_tensors(draft, fd, err);
    if (close(fd) && !rc)
        rc = error_errno(err, errno, "closing");
    if (rc)
        (void)error_wrap(err, "%s", name);
    return rc;
}

static int write_state(struct draft *draft, struct error *err)
{
    struct buf text = {0};
    int rc = numbers_write(draft->what->numbers, &text);
    if (rc)
        error_set(err, rc, "no memory for state.json");
    else
        rc = file_write(draft->folder, "state.json", text.data, text.size, err);
    if (!rc) {
        draft->manifest.files[draft->shards] = (struct manifest_file){
            .name = "state.json",
            .bytes = text.size,
            .header_bytes = text.size,
            .crc = crc32c(0, text.data, text.size),
        };
    }
    buf_fini(&text);
    return rc;
}

static int write_manifest(struct draft *draft, struct error *err)
{
    struct buf text = {0};
    buf_init(&text, MANIFEST_MAX_BYTES);
    int rc = manifest_write(&draft->manifest, &text);
    if (rc)
        error_set(err, rc, "no memory for manifest.json");
    else
        rc = file_write(draft->folder, "manifest.json", text.data, text.size, err);
    buf_fini(&text);
    if (!rc && fsync(draft->folder))
        rc = error_errno(err, errno, "syncing %s", draft->temporary);
    return rc;
}

static int fill_manifest(struct draft *draft, struct error *err)
{
    const struct checkpoint_write *what = draft->what;
    struct manifest *manifest = &draft->manifest;
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    arena_init(&manifest->arena, MANIFEST_MAX_BYTES);
    manifest->step = what->numbers->step;
    manifest->generation = what->about->generation;
    manifest->world = what->about->world;
    manifest->wall_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    manifest->strategy = what->about->strategy;
    manifest->mesh_dp = what->about->mesh_dp;
    manifest->models = what->about->models;
    manifest->n_models = what->about->n_models;
    manifest->mesh_tp = manifest->mesh_pp = manifest->mesh_cp = 1;
    manifest->n_files = draft->shards + 1;
    manifest->files =
        arena_array(&manifest->arena, (size_t)manifest->n_files, sizeof(*manifest->files));
    manifest->n_tensors = what->n_tensors;
    size_t n = (size_t)what->n_tensors;
    manifest->tensors = arena_array(&manifest->arena, n + 1, sizeof(*manifest->tensors));
    if (!manifest->files || !manifest->tensors)
        return error_set(err, WK_ENOMEM, "no memory for a manifest of %zu tensors", n);
    for (size_t i = 0; i < n; i++) {
        const struct checkpoint_tensor *tensor = &what->tensors[i];
        manifest->tensors[i] = (struct manifest_tensor){
            .name = tensor->name,
            .dtype = tensor->dtype,
            .dims = tensor->dims,
        };
        memcpy(manifest->tensors[i].shape, tensor->shape, sizeof(tensor->shape));
    }
    return 0;
}

/* The note of `rank` once its shard is written. */
static int await_note(struct draft *draft, int rank, struct note *ret, struct error *err)
{
    const struct checkpoint_write *what = draft->what;
    for (int64_t waited_us = 0;; waited_us += SHARD_POLL_US) {
        int rc = note_read(draft->folder, rank, ret, err);
        if (rc != WK_ENOTFOUND)
            return rc;
        if (what->cancelled && what->cancelled(what->cancelled_arg))
            return error_set(err, WK_EABORT, "given up: the generation it is of is over");
        if (waited_us >= (int64_t)CHECKPOINT_SHARD_WAIT_MS * 1000)
            return error_set(err, WK_ETIMEOUT, "the shard of rank %d did not arrive", rank);
        (void)usleep(SHARD_POLL_US);
    }
}

static int add_file(struct draft *draft, int rank, const struct note *note, struct error *err)
{
    struct manifest *manifest = &draft->manifest;
    char name[SHARD_NAME_BYTES];
    shard_name(draft, rank, name);
    manifest->files[rank] = (struct manifest_file){
        .name = arena_strdup(&manifest->arena, name),
        .bytes = note->bytes,
        .header_bytes = note->header_bytes,
        .crc = note->crc,
    };
    if (!manifest->files[rank].name)
        return error_set(err, WK_ENOMEM, "no memory for a manifest");
    for (uint32_t i = 0; i < note->n_parts; i++) {
        if (note->parts[i].tensor >= (uint32_t)manifest->n_tensors)
            return error_set(err, WK_EMISMATCH, "rank %d wrote tensors of another model", rank);
        manifest->tensors[note->parts[i].tensor].n_parts++;
    }
    return 0;
}

static int by_start(const void *a, const void *b)
{
    const struct manifest_part *one = a, *other = b;
    return one->start < other->start ? -1 : one->start > other->start;
}

/* Tensors' parts out of all notes, in order of their elements. */
static int fill_parts(struct draft *draft, const struct note *notes, struct error *err)
{
    struct manifest *manifest = &draft->manifest;
    for (int i = 0; i < manifest->n_tensors; i++) {
        struct manifest_tensor *tensor = &manifest->tensors[i];
        tensor->parts =
            arena_array(&manifest->arena, (size_t)tensor->n_parts + 1, sizeof(*tensor->parts));
        tensor->n_parts = 0;
        if (!tensor->parts)
            return error_set(err, WK_ENOMEM, "no memory for a manifest");
    }
    for (int rank = 0; rank < draft->shards; rank++)
        for (uint32_t i = 0; i < notes[rank].n_parts; i++) {
            const struct note_part *part = &notes[rank].parts[i];
            struct manifest_tensor *tensor = &manifest->tensors[part->tensor];
            tensor->parts[tensor->n_parts++] =
                (struct manifest_part){rank, part->start, part->count, part->crc};
        }
    for (int i = 0; i < manifest->n_tensors; i++)
        qsort(manifest->tensors[i].parts, (size_t)manifest->tensors[i].n_parts,
              sizeof(struct manifest_part), by_start);
    return 0;
}

/* Rank 0: everything the ranks wrote, into the manifest. */
static int collect_shards(struct draft *draft, struct error *err)
{
    struct note *notes = calloc((size_t)draft->shards, sizeof(*notes));
    if (!notes)
        return error_set(err, WK_ENOMEM, "no memory for %d notes", draft->shards);
    int rc = 0;
    for (int rank = 0; rank < draft->shards && !rc; rank++) {
        char name[NOTE_NAME_BYTES];
        note_name(rank, name);
        rc = rank == 0 ? 0 : await_note(draft, rank, &notes[rank], err);
        if (rank == 0)
            notes[0] = draft->note;
        else if (!rc && unlinkat(draft->folder, name, 0))
            rc = error_errno(err, errno, "removing %s", name);
        if (!rc)
            rc = add_file(draft, rank, &notes[rank], err);
    }
    if (!rc)
        rc = fill_parts(draft, notes, err);
    for (int rank = 1; rank < draft->shards; rank++)
        note_fini(&notes[rank]);
    free(notes);
    return rc;
}

/* The folder that is left under the temporary name has the older content. */
static int replace_older(struct draft *draft, struct error *err)
{
    if (renameat2(AT_FDCWD, draft->temporary, AT_FDCWD, draft->path, RENAME_EXCHANGE) == 0) {
        memcpy(draft->older, draft->temporary, sizeof(draft->older));
        return 0;
    }
    if (errno != EINVAL && errno != ENOSYS)
        return error_errno(err, errno, "exchanging %s", draft->path);
    /* A file system that cannot exchange: the older one steps aside first. */
    int rc = checkpoint_aside(draft->what->dir, draft->what->numbers->step, draft->older);
    if (rc)
        return error_set(err, rc, "the path %s is too long", draft->what->dir);
    rc = file_remove_folder(draft->older, err);
    if (!rc && rename(draft->path, draft->older))
        rc = error_errno(err, errno, "moving %s aside", draft->path);
    if (!rc && rename(draft->temporary, draft->path)) {
        rc = error_errno(err, errno, "renaming %s", draft->temporary);
        (void)rename(draft->older, draft->path);
    }
    return rc;
}

static int put_in_place(struct draft *draft, struct error *err)
{
    if (rename(draft->temporary, draft->path)) {
        if (errno != ENOTEMPTY && errno != EEXIST)
            return error_errno(err, errno, "renaming %s", draft->temporary);
        int rc = replace_older(draft, err);
        if (rc)
            return rc;
    }
    return file_sync_folder(draft->what->dir, err);
}

/* Not so when a newer generation has put its own there meanwhile. */
static bool still_in_place(const struct draft *draft)
{
    struct stat mine, there;
    return fstat(draft->folder, &mine) == 0 && stat(draft->path, &there) == 0 &&
           mine.st_dev == there.st_dev && mine.st_ino == there.st_ino;
}

/* It does not count: what was there before is there again. */
static void take_back(struct draft *draft)
{
    if (!still_in_place(draft))
        return;
    if (!*draft->older) {
        (void)rename(draft->path, draft->temporary);
    } else if (strcmp(draft->older, draft->temporary) == 0) {
        (void)renameat2(AT_FDCWD, draft->temporary, AT_FDCWD, draft->path, RENAME_EXCHANGE);
    } else if (rename(draft->path, draft->temporary) == 0) {
        (void)rename(draft->older, draft->path);
    }
    (void)file_sync_folder(draft->what->dir, NULL);
}

/* True if there was no refusal: the checkpoint may count, and stays. */
static bool is_unheard(int code)
{
    return code == WK_EUNAVAILABLE || code == WK_ETIMEOUT;
}

static int tell_done(struct draft *draft, const struct checkpoint_claim *claim, struct error *err)
{
    const struct checkpoint_gate *gate = draft->what->gate;
    int rc = gate && gate->done ? gate->done(gate->arg, claim, err) : 0;
    if (rc && !is_unheard(rc))
        take_back(draft);
    else if (*draft->older) {
        int removed = file_remove_folder(draft->older, rc ? NULL : err);
        if (!rc)
            rc = removed;
    }
    return rc;
}

static int commit_draft(struct draft *draft, struct error *err)
{
    const struct checkpoint_gate *gate = draft->what->gate;
    struct checkpoint_claim claim = {
        .step = draft->what->numbers->step,
        .generation = draft->what->about->generation,
        .world = draft->what->about->world,
        .path = draft->path,
    };
    int rc = gate && gate->prepare ? gate->prepare(gate->arg, &claim, err) : 0;
    if (!rc)
        rc = write_manifest(draft, err);
    if (!rc)
        rc = put_in_place(draft, err);
    if (rc)
        return rc;
    claim.bytes = manifest_bytes(&draft->manifest);
    return tell_done(draft, &claim, err);
}

static int open_draft(struct draft *draft, struct error *err)
{
    const struct checkpoint_about *about = draft->what->about;
    const char *dir = draft->what->dir;
    long long step = draft->what->numbers->step;
    int rc = file_make_dirs(dir, err);
    if (rc)
        return rc;
    if (checkpoint_path(dir, step, draft->path) ||
        checkpoint_temporary(dir, step, about->generation, about->ticket, draft->temporary))
        return error_set(err, WK_EINVAL, "the path %s is too long", dir);
    /* One writer's own folder starts empty; the ranks of one ticket share theirs. */
    if (about->rank == 0)
        rc = checkpoint_sweep(dir, about->generation, draft->shards > 1 ? draft->temporary : "",
                              err);
    if (!rc && mkdir(draft->temporary, 0777) && (draft->shards == 1 || errno != EEXIST))
        rc = error_errno(err, errno, "making folder %s", draft->temporary);
    if (rc)
        return rc;
    draft->folder = open(draft->temporary, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return draft->folder < 0 ? error_errno(err, errno, "%s", draft->temporary) : 0;
}

static int write_as_first(struct draft *draft, struct error *err)
{
    int rc = fill_manifest(draft, err);
    if (!rc)
        rc = collect_shards(draft, err);
    if (!rc)
        rc = write_state(draft, err);
    if (rc)
        return rc;
    return commit_draft(draft, err);
}

int checkpoint_write(const struct checkpoint_write *what, struct error *err)
{
    bool first = what->about->rank == 0;
    struct draft draft = {.what = what, .folder = -1, .shards = what->about->shards};
    if (draft.shards < 1)
        draft.shards = 1;
    int rc = draft.shards > CHECKPOINT_SHARDS_MAX
                 ? error_set(err, WK_EINVAL, "more than %d shards", CHECKPOINT_SHARDS_MAX)
                 : open_draft(&draft, err);
    if (!rc)
        rc = write_shard(&draft, err);
    if (!rc)
        rc = first ? write_as_first(&draft, err)
                   : note_write(draft.folder, what->about->rank, &draft.note, err);
    if (draft.folder >= 0)
        close(draft.folder);
    if (rc && first && *draft.temporary)
        (void)file_remove_folder(draft.temporary, NULL);
    manifest_fini(&draft.manifest);
    note_fini(&draft.note);
    return rc;
}
