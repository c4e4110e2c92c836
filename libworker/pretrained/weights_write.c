/* Writing weights: tensors stream from the caller to the files, a chunk at a time. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <worker/error.h>

#include "common/base/str.h"
#include "libworker/checkpoint/file.h"
#include "libworker/pretrained/weights.h"

enum { FILE_NAME_BYTES = 48 };

struct plan {
    const struct weights_write *what;
    char path[WEIGHTS_PATH_MAX], temporary[WEIGHTS_PATH_MAX + 16];
    int folder; /* open on the temporary one */
    int *file;  /* [n_tensors] */
    int n_files;
    uint64_t bytes; /* of all tensors */
    float *values;  /* [WEIGHTS_CHUNK] */
    void *raw;      /* the same as they go to disk */
};

static size_t count_of(const struct weights_tensor *tensor)
{
    size_t count = 1;
    for (int i = 0; i < tensor->dims; i++)
        count *= (size_t)tensor->shape[i];
    return count;
}

static uint64_t bytes_of(const struct plan *plan, int index)
{
    return (uint64_t)count_of(&plan->what->tensors[index]) * wk_format_bytes(plan->what->format);
}

/* Tensors in order; a new file begins where the next would make this one too large. */
static void assign_files(struct plan *plan)
{
    uint64_t held = 0;
    plan->n_files = 1;
    for (int i = 0; i < plan->what->n_tensors; i++) {
        uint64_t bytes = bytes_of(plan, i);
        if (plan->what->file_bytes && held && held + bytes > plan->what->file_bytes) {
            plan->n_files++;
            held = 0;
        }
        held += bytes;
        plan->bytes += bytes;
        plan->file[i] = plan->n_files - 1;
    }
}

static void file_name(const struct plan *plan, int file, char ret[FILE_NAME_BYTES])
{
    if (plan->n_files == 1)
        (void)str_copy(ret, FILE_NAME_BYTES, "model.safetensors");
    else
        (void)str_printf(ret, FILE_NAME_BYTES, "model-%05d-of-%05d.safetensors", file + 1,
                         plan->n_files);
}

static enum wk_dtype dtype_of(enum wk_format format)
{
    return format == WK_FORMAT_F16 ? WK_F16 : format == WK_FORMAT_BF16 ? WK_BF16 : WK_F32;
}

static int write_header(const struct plan *plan, int file, int fd, struct error *err)
{
    struct safetensors_entry *entries = calloc((size_t)plan->what->n_tensors + 1, sizeof(*entries));
    struct buf header = {0};
    int n = 0, rc = entries ? 0 : WK_ENOMEM;
    for (int i = 0; i < plan->what->n_tensors && !rc; i++) {
        const struct weights_tensor *tensor = &plan->what->tensors[i];
        if (plan->file[i] != file)
            continue;
        entries[n] = (struct safetensors_entry){
            .name = tensor->name,
            .dtype = dtype_of(plan->what->format),
            .dims = tensor->dims,
            .bytes = bytes_of(plan, i),
        };
        memcpy(entries[n++].shape, tensor->shape, sizeof(tensor->shape));
    }
    if (!rc)
        rc = safetensors_write_header(entries, n, &header);
    if (rc)
        (void)error_set(err, rc, "no memory for a header of %d tensors", n);
    else
        rc = file_append(fd, header.data, header.size, err);
    buf_fini(&header);
    free(entries);
    return rc;
}

static int write_tensor(struct plan *plan, int index, int fd, struct error *err)
{
    const struct weights_write *what = plan->what;
    size_t count = count_of(&what->tensors[index]), element = wk_format_bytes(what->format);
    int rc = 0;
    for (size_t done = 0; done < count && !rc;) {
        size_t n = count - done < WEIGHTS_CHUNK ? count - done : WEIGHTS_CHUNK;
        rc = what->read(what->arg, index, (struct weights_range){done, n}, plan->values, err);
        if (!rc)
            rc = wk_narrow(plan->raw, what->format, plan->values, n);
        if (!rc)
            rc = file_append(fd, plan->raw, n * element, err);
        done += n;
    }
    if (rc)
        (void)error_wrap(err, "tensor %.80s", what->tensors[index].name);
    return rc;
}

static int write_file(struct plan *plan, int file, struct error *err)
{
    char name[FILE_NAME_BYTES];
    file_name(plan, file, name);
    int fd = openat(plan->folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return error_errno(err, errno, "%s", name);
    int rc = write_header(plan, file, fd, err);
    for (int i = 0; i < plan->what->n_tensors && !rc; i++)
        if (plan->file[i] == file)
            rc = write_tensor(plan, i, fd, err);
    return file_end(fd, name, rc, err);
}

static int write_index(const struct plan *plan, struct error *err)
{
    struct buf text = {0};
    buf_init(&text, WEIGHTS_INDEX_MAX_BYTES);
    (void)buf_printf(&text, "{\n  \"metadata\": {\"total_size\": %llu},\n  \"weight_map\": {",
                     (unsigned long long)plan->bytes);
    for (int i = 0; i < plan->what->n_tensors; i++) {
        const char *name = plan->what->tensors[i].name;
        char file[FILE_NAME_BYTES];
        file_name(plan, plan->file[i], file);
        (void)buf_str(&text, i ? ",\n    " : "\n    ");
        (void)buf_json_string(&text, name, strlen(name));
        (void)buf_printf(&text, ": \"%s\"", file);
    }
    (void)buf_str(&text, "\n  }\n}\n");
    int rc = buf_failed(&text) ? error_set(err, WK_ENOMEM, "no memory for the index")
                               : file_write(plan->folder, "model.safetensors.index.json", text.data,
                                            text.size, err);
    buf_fini(&text);
    return rc;
}

static int write_all(struct plan *plan, struct error *err)
{
    const char *config = plan->what->config;
    int rc = 0;
    for (int i = 0; i < plan->n_files && !rc; i++)
        rc = write_file(plan, i, err);
    if (!rc && plan->n_files > 1)
        rc = write_index(plan, err);
    if (!rc && config)
        rc = file_write(plan->folder, "config.json", config, strlen(config), err);
    if (!rc && fsync(plan->folder))
        rc = error_errno(err, errno, "syncing %s", plan->temporary);
    return rc;
}

static bool is_empty(const char *path)
{
    DIR *folder = opendir(path);
    if (!folder)
        return errno == ENOENT;
    const struct dirent *entry;
    bool found = false;
    while (!found && (entry = readdir(folder)))
        found = strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    (void)closedir(folder);
    return !found;
}

static int check_write(const struct weights_write *what, struct error *err)
{
    if (what->format != WK_FORMAT_F32 && what->format != WK_FORMAT_F16 &&
        what->format != WK_FORMAT_BF16)
        return error_set(err, WK_EINVAL, "weights are written as f32, f16 or bf16, not %s",
                         wk_format_name(what->format));
    if (what->n_tensors < 1 || what->n_tensors > SAFETENSORS_TENSORS_MAX)
        return error_set(err, WK_EINVAL, "%d tensors", what->n_tensors);
    if (!is_empty(what->path))
        return error_set(err, WK_EINVAL, "it is there and is no empty folder: name a new one");
    return 0;
}

static int make_folder(struct plan *plan, struct error *err)
{
    if (str_copy(plan->path, sizeof(plan->path), plan->what->path))
        return error_set(err, WK_EINVAL, "the path is too long");
    size_t length = strlen(plan->path);
    while (length > 1 && plan->path[length - 1] == '/')
        plan->path[--length] = 0;
    (void)str_printf(plan->temporary, sizeof(plan->temporary), "%s.tmp-%d", plan->path,
                     (int)getpid());
    int rc = file_remove_folder(plan->temporary, err);
    if (!rc)
        rc = file_make_dirs(plan->temporary, err);
    if (rc)
        return rc;
    plan->folder = open(plan->temporary, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return plan->folder < 0 ? error_errno(err, errno, "%s", plan->temporary) : 0;
}

int weights_write(const struct weights_write *what, struct error *err)
{
    struct plan plan = {.what = what, .folder = -1};
    int rc = check_write(what, err);
    if (!rc) {
        plan.file = calloc((size_t)what->n_tensors, sizeof(*plan.file));
        plan.values = malloc((size_t)WEIGHTS_CHUNK * sizeof(*plan.values));
        plan.raw = malloc((size_t)WEIGHTS_CHUNK * sizeof(float));
        if (!plan.file || !plan.values || !plan.raw)
            rc = error_set(err, WK_ENOMEM, "no memory for %d tensors", what->n_tensors);
    }
    if (!rc)
        rc = make_folder(&plan, err);
    if (!rc) {
        assign_files(&plan);
        rc = write_all(&plan, err);
        if (!rc && rename(plan.temporary, plan.path))
            rc = error_errno(err, errno, "renaming %s", plan.temporary);
    }
    if (plan.folder >= 0)
        close(plan.folder);
    if (rc && *plan.temporary)
        (void)file_remove_folder(plan.temporary, NULL);
    if (rc)
        (void)error_wrap(err, "weights %.300s", what->path);
    free(plan.file);
    free(plan.values);
    free(plan.raw);
    return rc;
}
