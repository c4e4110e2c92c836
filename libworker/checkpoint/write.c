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
#include "libworker/checkpoint/folder.h"
#include "libworker/checkpoint/manifest.h"
#include "libworker/checkpoint/safetensors.h"

/* The one shard of a data-parallel job. */
static const char shard_name[] = "rank-00000-of-00001.safetensors";

enum { SHARD, STATE, FILES }; /* places in the manifest */
enum { CHUNK_BYTES = 4 << 20 };

struct draft {
    const struct checkpoint_write *what;
    char path[CHECKPOINT_PATH_MAX];      /* final */
    char temporary[CHECKPOINT_PATH_MAX]; /* until renamed */
    int folder;                          /* open on the temporary one */
    struct manifest manifest;
};

static int write_data(int fd, const struct checkpoint_tensor *tensor, uint32_t *ret_crc,
                      struct error *err)
{
    const char *at = tensor->data;
    uint32_t crc = 0;
    for (size_t done = 0; done < tensor->bytes;) {
        size_t size = tensor->bytes - done < CHUNK_BYTES ? tensor->bytes - done : CHUNK_BYTES;
        crc = crc32c(crc, at + done, size);
        int rc = file_append(fd, at + done, size, err);
        if (rc)
            return rc;
        done += size;
    }
    *ret_crc = crc;
    return 0;
}

static int shard_header(struct draft *draft, struct buf *out, struct error *err)
{
    int n = draft->what->n_tensors;
    struct safetensors_entry *entries = calloc((size_t)n + 1, sizeof(*entries));
    if (!entries)
        return error_set(err, WK_ENOMEM, "no memory for the header of %d tensors", n);
    for (int i = 0; i < n; i++) {
        const struct checkpoint_tensor *tensor = &draft->what->tensors[i];
        entries[i] = (struct safetensors_entry){
            .name = tensor->name,
            .dtype = tensor->dtype,
            .dims = tensor->dims,
            .bytes = tensor->bytes,
        };
        memcpy(entries[i].shape, tensor->shape, sizeof(tensor->shape));
    }
    int rc = safetensors_write_header(entries, n, out);
    free(entries);
    return rc ? error_set(err, rc, "no memory for the header of %d tensors", n) : 0;
}

static int write_tensors(struct draft *draft, int fd, struct error *err)
{
    struct buf header = {0};
    int rc = shard_header(draft, &header, err);
    if (!rc)
        rc = file_append(fd, header.data, header.size, err);
    if (!rc) {
        draft->manifest.files[SHARD] = (struct manifest_file){
            .name = shard_name,
            .bytes = header.size,
            .header_bytes = header.size,
            .crc = crc32c(0, header.data, header.size),
        };
    }
    buf_fini(&header);
    for (int i = 0; i < draft->what->n_tensors && !rc; i++) {
        const struct checkpoint_tensor *tensor = &draft->what->tensors[i];
        rc = write_data(fd, tensor, &draft->manifest.tensors[i].parts->crc, err);
        draft->manifest.files[SHARD].bytes += tensor->bytes;
    }
    if (!rc && fsync(fd))
        rc = error_errno(err, errno, "syncing");
    return rc;
}

static int write_shard(struct draft *draft, struct error *err)
{
    int fd = openat(draft->folder, shard_name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return error_errno(err, errno, "%s", shard_name);
    int rc = write_tensors(draft, fd, err);
    if (close(fd) && !rc)
        rc = error_errno(err, errno, "closing");
    if (rc)
        (void)error_wrap(err, "%s", shard_name);
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
        draft->manifest.files[STATE] = (struct manifest_file){
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
    manifest->mesh_tp = manifest->mesh_pp = manifest->mesh_cp = 1;
    manifest->n_files = FILES;
    manifest->files = arena_array(&manifest->arena, FILES, sizeof(*manifest->files));
    manifest->n_tensors = what->n_tensors;
    size_t n = (size_t)what->n_tensors;
    manifest->tensors = arena_array(&manifest->arena, n + 1, sizeof(*manifest->tensors));
    struct manifest_part *parts = arena_array(&manifest->arena, n + 1, sizeof(*parts));
    if (!manifest->files || !manifest->tensors || !parts)
        return error_set(err, WK_ENOMEM, "no memory for a manifest of %zu tensors", n);
    for (size_t i = 0; i < n; i++) {
        const struct checkpoint_tensor *tensor = &what->tensors[i];
        parts[i].file = SHARD;
        parts[i].count = (int64_t)(tensor->bytes / wk_dtype_bytes(tensor->dtype));
        manifest->tensors[i] = (struct manifest_tensor){
            .name = tensor->name,
            .dtype = tensor->dtype,
            .dims = tensor->dims,
            .parts = &parts[i],
            .n_parts = 1,
        };
        memcpy(manifest->tensors[i].shape, tensor->shape, sizeof(tensor->shape));
    }
    return 0;
}

/* A folder cannot be renamed over one that has files, so an older one steps aside first. */
static int put_in_place(struct draft *draft, struct error *err)
{
    char aside[CHECKPOINT_PATH_MAX];
    int rc = str_printf(aside, sizeof(aside), "%s/.replaced-%08lld.tmp", draft->what->dir,
                        (long long)draft->what->numbers->step);
    if (rc)
        return error_set(err, WK_EINVAL, "the path %s is too long", draft->what->dir);
    if (rename(draft->temporary, draft->path) == 0)
        return file_sync_folder(draft->what->dir, err);
    if (errno != ENOTEMPTY && errno != EEXIST)
        return error_errno(err, errno, "renaming %s", draft->temporary);
    rc = file_remove_folder(aside, err);
    if (!rc && rename(draft->path, aside))
        rc = error_errno(err, errno, "moving %s aside", draft->path);
    if (!rc && rename(draft->temporary, draft->path)) {
        rc = error_errno(err, errno, "renaming %s", draft->temporary);
        (void)rename(aside, draft->path);
    }
    if (!rc)
        rc = file_sync_folder(draft->what->dir, err);
    if (!rc)
        rc = file_remove_folder(aside, err);
    return rc;
}

static int commit(struct draft *draft, struct error *err)
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
    claim.bytes = manifest_bytes(&draft->manifest);
    if (!rc && gate && gate->done)
        rc = gate->done(gate->arg, &claim, err);
    return rc;
}

static int open_draft(struct draft *draft, struct error *err)
{
    const char *dir = draft->what->dir;
    long long step = draft->what->numbers->step;
    int rc = file_make_dirs(dir, err);
    if (rc)
        return rc;
    if (checkpoint_path(dir, step, draft->path) ||
        str_printf(draft->temporary, sizeof(draft->temporary), "%s/.step-%08lld.tmp", dir, step))
        return error_set(err, WK_EINVAL, "the path %s is too long", dir);
    rc = file_remove_folder(draft->temporary, err);
    if (!rc && mkdir(draft->temporary, 0777))
        rc = error_errno(err, errno, "making folder %s", draft->temporary);
    if (rc)
        return rc;
    draft->folder = open(draft->temporary, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return draft->folder < 0 ? error_errno(err, errno, "%s", draft->temporary) : 0;
}

int checkpoint_write(const struct checkpoint_write *what, struct error *err)
{
    struct draft draft = {.what = what, .folder = -1};
    int rc = open_draft(&draft, err);
    if (!rc)
        rc = fill_manifest(&draft, err);
    if (!rc)
        rc = write_shard(&draft, err);
    if (!rc)
        rc = write_state(&draft, err);
    if (!rc)
        rc = commit(&draft, err);
    if (draft.folder >= 0)
        close(draft.folder);
    if (rc && *draft.temporary)
        (void)file_remove_folder(draft.temporary, NULL);
    manifest_fini(&draft.manifest);
    if (rc)
        (void)error_wrap(err, "checkpoint of step %lld", (long long)what->numbers->step);
    return rc;
}
