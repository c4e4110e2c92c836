#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/parse.h"
#include "common/base/str.h"
#include "libworker/tensor/memory_limit.h"

enum { LINE_BYTES = 4096, DEPTH_MAX = 64 };

/* The files of one version of the hierarchy. */
struct version {
    const char *mount, *limit, *used, *cached[2]; /* cached: lines of memory.stat */
};

static const struct version versions[] = {
    {"/sys/fs/cgroup", "memory.max", "memory.current", {"inactive_file ", "active_file "}},
    {"/sys/fs/cgroup/memory",
     "memory.limit_in_bytes",
     "memory.usage_in_bytes",
     {"total_inactive_file ", "total_active_file "}},
};

static FILE *open_in(const char *folder, const char *name)
{
    char path[2 * MEMORY_GROUP_MAX];
    return str_printf(path, sizeof(path), "%s/%s", folder, name) ? NULL : fopen(path, "re");
}

/* The number in a file of one, or -1: absent, or "max". */
static int64_t read_number(const char *folder, const char *name)
{
    char line[64];
    int64_t number = -1;
    FILE *file = open_in(folder, name);
    if (!file)
        return -1;
    if (fgets(line, sizeof(line), file)) {
        line[strcspn(line, "\n")] = 0;
        if (parse_i64(line, 0, INT64_MAX, &number, NULL))
            number = -1;
    }
    (void)fclose(file);
    return number;
}

/* The number after `key` at the start of a line, or -1. */
static int64_t read_line(FILE *file, const char *key)
{
    char line[LINE_BYTES];
    rewind(file);
    while (fgets(line, sizeof(line), file))
        if (str_starts(line, key))
            return strtoll(line + strlen(key), NULL, 10);
    return -1;
}

static int64_t cached_bytes(const char *folder, const struct version *version)
{
    int64_t sum = 0;
    FILE *file = open_in(folder, "memory.stat");
    for (int i = 0; i < 2 && file; i++) {
        int64_t bytes = read_line(file, version->cached[i]);
        sum += bytes > 0 ? bytes : 0;
    }
    if (file)
        (void)fclose(file);
    return sum;
}

static int64_t left_in(const char *folder, const struct version *version)
{
    int64_t limit = read_number(folder, version->limit);
    int64_t used = read_number(folder, version->used);
    /* Version 1 writes the largest number of whole pages where there is no limit. */
    if (limit < 0 || limit >= INT64_MAX / 2 || used < 0)
        return MEMORY_UNLIMITED;
    int64_t cached = cached_bytes(folder, version);
    used -= cached < used ? cached : used;
    return limit > used ? limit - used : 0;
}

/* The process' path in a hierarchy, from a line "4:memory:/a/b" or "0::/a/b". */
static bool own_path(FILE *file, int version, char ret[MEMORY_GROUP_MAX])
{
    char line[LINE_BYTES];
    rewind(file);
    while (fgets(line, sizeof(line), file)) {
        char *controllers = strchr(line, ':');
        char *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = 0;
        path[strcspn(path, "\n")] = 0;
        bool here = version == 0 ? !controllers[1] : false;
        for (char *rest = controllers + 1, *word; version == 1 && (word = strsep(&rest, ","));)
            here = here || strcmp(word, "memory") == 0;
        if (here)
            return str_copy(ret, MEMORY_GROUP_MAX, strcmp(path, "/") == 0 ? "" : path) == 0;
    }
    return false;
}

/* From its own group up to the mount's top. */
static void climb(const char *mount, const char *path, const struct version *version,
                  struct memory_limit *ret)
{
    char folder[MEMORY_GROUP_MAX];
    size_t top = strlen(mount);
    if (str_printf(folder, sizeof(folder), "%s%s", mount, path))
        return;
    if (access(folder, F_OK)) /* mounted below what /proc names, as in a container */
        (void)str_copy(folder, sizeof(folder), mount);
    if (access(folder, F_OK))
        return;
    (void)str_copy(ret->group, sizeof(ret->group), folder);
    ret->own = left_in(folder, version);
    for (int depth = 0; strlen(folder) > top && depth < DEPTH_MAX; depth++) {
        *strrchr(folder, '/') = 0;
        int64_t left = left_in(folder, version);
        ret->above = left < ret->above ? left : ret->above;
    }
}

/* What the whole machine has left, as the kernel estimates it: beyond that it kills. */
static int64_t left_in_machine(const char *root)
{
    FILE *file = open_in(root, "proc/meminfo");
    int64_t kib = file ? read_line(file, "MemAvailable:") : -1;
    if (file)
        (void)fclose(file);
    return kib < 0 || kib > INT64_MAX / 1024 ? MEMORY_UNLIMITED : kib * 1024;
}

void memory_limit_read(const char *root, struct memory_limit *ret)
{
    *ret = (struct memory_limit){.own = MEMORY_UNLIMITED, .above = MEMORY_UNLIMITED};
    FILE *file = open_in(root, "proc/self/cgroup");
    for (int v = 0; v < 2 && file; v++) {
        char mount[MEMORY_GROUP_MAX], path[MEMORY_GROUP_MAX];
        struct memory_limit found = {.own = MEMORY_UNLIMITED, .above = MEMORY_UNLIMITED};
        if (!own_path(file, v, path) ||
            str_printf(mount, sizeof(mount), "%s%s", root, versions[v].mount))
            continue;
        climb(mount, path, &versions[v], &found);
        /* Of a machine with both, the controller is in one of them. */
        if (found.own != MEMORY_UNLIMITED || found.above != MEMORY_UNLIMITED || !*ret->group)
            *ret = found;
    }
    if (file)
        (void)fclose(file);
    int64_t machine = left_in_machine(root);
    ret->above = machine < ret->above ? machine : ret->above;
}

int64_t memory_data_bytes(const char *root)
{
    FILE *file = open_in(root, "proc/self/status");
    int64_t kib = file ? read_line(file, "VmData:") : -1;
    if (file)
        (void)fclose(file);
    return kib < 0 ? -1 : kib * 1024;
}
