/* struct disk of the simulated world: whole-file writes are durable, appended bytes may be lost
 * when their program crashes with its machine. */
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/buf.h"
#include "common/base/str.h"
#include "tests/sim/world.h"

struct sim_file {
    struct buf data;
    size_t synced;
};

static struct strmap *files_of(void *self)
{
    struct program *program = self;
    return &program->world->files[program->machine];
}

static int disk_read_file(void *self, const char *path, size_t max, char **ret_data,
                          size_t *ret_size, struct error *err)
{
    const struct sim_file *file = strmap_get(files_of(self), path);
    if (!file)
        return error_set(err, E_NOT_FOUND, "%s does not exist", path);
    if (file->data.size > max)
        return error_set(err, E_OUT_OF_RANGE, "%s is too large", path);
    char *copy = malloc(file->data.size + 1);
    insist(copy);
    memcpy(copy, buf_cstr(&file->data), file->data.size);
    copy[file->data.size] = 0;
    *ret_data = copy;
    *ret_size = file->data.size;
    return 0;
}

static struct sim_file *open_file(void *self, const char *path)
{
    struct sim_file *file = strmap_get(files_of(self), path);
    if (file)
        return file;
    file = calloc(1, sizeof(*file));
    insist(file && strmap_set(files_of(self), path, file, NULL) == 0);
    return file;
}

static bool fails(void *self)
{
    const struct program *program = self;
    return program->world->disk_fails_until_ms[program->machine] > program->world->now_ms;
}

static int disk_append_file(void *self, const char *path, const void *data, size_t size,
                            struct error *err)
{
    if (fails(self))
        return error_set(err, E_RESOURCE_EXHAUSTED, "%s cannot be written", path);
    insist(buf_append(&open_file(self, path)->data, data, size) == 0);
    return 0;
}

static int disk_write_file(void *self, const char *path, const void *data, size_t size, int mode,
                           struct error *err)
{
    if (fails(self))
        return error_set(err, E_RESOURCE_EXHAUSTED, "%s cannot be written", path);
    struct sim_file *file = open_file(self, path);
    (void)mode;
    buf_clear(&file->data);
    insist(buf_append(&file->data, data, size) == 0);
    file->synced = size;
    return 0;
}

static int disk_read_range(void *self, const char *path, uint64_t offset, void *ret_data,
                           size_t max, size_t *ret_size, struct error *err)
{
    const struct sim_file *file = strmap_get(files_of(self), path);
    if (!file)
        return error_set(err, E_NOT_FOUND, "%s does not exist", path);
    size_t left = offset < file->data.size ? file->data.size - (size_t)offset : 0;
    *ret_size = left < max ? left : max;
    if (*ret_size)
        memcpy(ret_data, file->data.data + offset, *ret_size);
    return 0;
}

static int disk_make_dirs(void *self, const char *path, int mode, struct error *err)
{
    (void)self, (void)path, (void)mode, (void)err;
    return 0;
}

static void file_free(struct sim_file *file)
{
    buf_fini(&file->data);
    free(file);
}

static bool is_under(const char *path, const char *folder)
{
    size_t size = strlen(folder);
    return strncmp(path, folder, size) == 0 && (path[size] == '/' || path[size] == 0);
}

static int disk_remove_tree(void *self, const char *path, struct error *err)
{
    struct strmap *files = files_of(self);
    (void)err;
    for (struct map_entry *e = strmap_at_least(files, path), *next;
         e && strncmp(e->name, path, strlen(path)) == 0; e = next) {
        next = map_next(e);
        if (!is_under(e->name, path))
            continue;
        file_free(e->value);
        strmap_remove(files, e->name);
    }
    return 0;
}

static int disk_list(void *self, const char *path, char ***ret_names, struct error *err)
{
    enum { NAMES_MAX = 4096 };
    struct strmap names = {0};
    size_t prefix = strlen(path) + 1, bytes = 0;
    (void)err;
    for (struct map_entry *e = strmap_at_least(files_of(self), path);
         e && strncmp(e->name, path, prefix - 1) == 0; e = map_next(e)) {
        char name[256];
        if (e->name[prefix - 1] != '/')
            continue;
        size_t size = strcspn(e->name + prefix, "/");
        insist(size < sizeof(name) && strmap_count(&names) < NAMES_MAX);
        memcpy(name, e->name + prefix, size);
        name[size] = 0;
        if (!strmap_find(&names, name))
            bytes += size + 1;
        insist(strmap_set(&names, name, NULL, NULL) == 0);
    }
    size_t count = strmap_count(&names), at = 0;
    char **list = malloc((count + 1) * sizeof(*list) + bytes);
    insist(list);
    char *text = (char *)(list + count + 1);
    for (struct map_entry *e = strmap_first(&names); e; e = map_next(e)) {
        list[at++] = text;
        memcpy(text, e->name, strlen(e->name) + 1);
        text += strlen(e->name) + 1;
    }
    list[count] = NULL;
    strmap_fini(&names);
    *ret_names = list;
    return 0;
}

static int disk_free_bytes(void *self, const char *path, uint64_t *ret_bytes, struct error *err)
{
    (void)self, (void)path, (void)err;
    *ret_bytes = UINT64_C(1) << 40;
    return 0;
}

struct disk sim_disk(struct program *program)
{
    return (struct disk){.self = program,
                         .read_file = disk_read_file,
                         .write_file = disk_write_file,
                         .append_file = disk_append_file,
                         .read_range = disk_read_range,
                         .make_dirs = disk_make_dirs,
                         .remove_tree = disk_remove_tree,
                         .list = disk_list,
                         .free_bytes = disk_free_bytes};
}

void sim_disk_crash(struct world *world, int machine)
{
    for (struct map_entry *e = strmap_first(&world->files[machine]); e; e = map_next(e)) {
        struct sim_file *file = e->value;
        if (file->data.size <= file->synced)
            continue;
        size_t lost = (size_t)rng_below(&world->rng, file->data.size - file->synced + 1);
        file->data.size -= lost;
        file->synced = file->data.size;
    }
}

void sim_disk_fini(struct world *world)
{
    for (int machine = 0; machine < SIM_MACHINES_MAX; machine++) {
        for (struct map_entry *e = strmap_first(&world->files[machine]); e; e = map_next(e))
            file_free(e->value);
        strmap_fini(&world->files[machine]);
    }
}
