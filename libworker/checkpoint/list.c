/* Which checkpoints are there, and which may go. */
#include "libworker/checkpoint/list.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <worker/error.h>

#include "common/base/parse.h"
#include "common/base/str.h"
#include "libworker/checkpoint/file.h"

static const char prefix[] = "step-";
static const char aside_prefix[] = ".replaced-";

enum { CHECKPOINTS_MAX = 1 << 20 };

int checkpoint_path(const char *dir, int64_t step, char ret[CHECKPOINT_PATH_MAX])
{
    if (str_printf(ret, CHECKPOINT_PATH_MAX, "%s/%s%08lld", dir, prefix, (long long)step))
        return WK_EINVAL;
    return 0;
}

int checkpoint_temporary(const char *dir, int64_t step, uint64_t generation, uint32_t ticket,
                         char ret[CHECKPOINT_PATH_MAX])
{
    if (str_printf(ret, CHECKPOINT_PATH_MAX, "%s/.%s%08lld-%llu-%06x.tmp", dir, prefix,
                   (long long)step, (unsigned long long)generation, (unsigned)ticket))
        return WK_EINVAL;
    return 0;
}

int checkpoint_aside(const char *dir, int64_t step, char ret[CHECKPOINT_PATH_MAX])
{
    if (str_printf(ret, CHECKPOINT_PATH_MAX, "%s/%s%08lld.tmp", dir, aside_prefix, (long long)step))
        return WK_EINVAL;
    return 0;
}

static int64_t step_of_name(const char *name)
{
    int64_t step;
    if (!str_starts(name, prefix) || parse_i64(name + strlen(prefix), 0, INT64_MAX, &step, NULL))
        return -1;
    return step;
}

int64_t checkpoint_step_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return step_of_name(slash ? slash + 1 : path);
}

enum found { ABSENT, PRESENT, UNKNOWN };

/* UNKNOWN where the folder may not be searched or its disk fails: a checkpoint may be there. */
static enum found manifest_of(const char *dir, const char *name)
{
    char path[CHECKPOINT_PATH_MAX];
    struct stat st;
    if (str_printf(path, sizeof(path), "%s/%s/manifest.json", dir, name))
        return ABSENT;
    if (stat(path, &st) == 0)
        return PRESENT;
    return errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? ABSENT : UNKNOWN;
}

static int by_step(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static int add_step(int64_t **steps, int *count, int64_t step, struct error *err)
{
    if (*count >= CHECKPOINTS_MAX)
        return error_set(err, WK_ENOMEM, "more than %d checkpoints", CHECKPOINTS_MAX);
    if ((*count & (*count - 1)) == 0) {
        size_t size = *count ? 2 * (size_t)*count : 1;
        int64_t *more = realloc(*steps, size * sizeof(*more));
        if (!more)
            return error_set(err, WK_ENOMEM, "no memory for %d checkpoints", *count);
        *steps = more;
    }
    (*steps)[(*count)++] = step;
    return 0;
}

/* `unknown`: with those that may be checkpoints. */
static int list(const char *dir, bool unknown, int64_t **ret_steps, int *ret_count,
                struct error *err)
{
    int64_t *steps = NULL;
    int count = 0, rc = 0;
    DIR *folder = opendir(dir);
    if (!folder && errno != ENOENT)
        return error_errno(err, errno, "checkpoints in %s", dir);
    const struct dirent *entry;
    while (folder && !rc && (entry = readdir(folder))) {
        int64_t step = step_of_name(entry->d_name);
        enum found found = step >= 0 ? manifest_of(dir, entry->d_name) : ABSENT;
        if (found == PRESENT || (found == UNKNOWN && unknown))
            rc = add_step(&steps, &count, step, err);
    }
    if (folder)
        (void)closedir(folder);
    if (rc) {
        free(steps);
        return rc;
    }
    if (count)
        qsort(steps, (size_t)count, sizeof(*steps), by_step);
    *ret_steps = steps;
    *ret_count = count;
    return 0;
}

int checkpoint_list(const char *dir, int64_t **ret_steps, int *ret_count, struct error *err)
{
    return list(dir, true, ret_steps, ret_count, err);
}

int checkpoint_remove(const char *path, struct error *err)
{
    if (checkpoint_step_of(path) < 0)
        return error_set(err, WK_EINVAL, "%s is no checkpoint", path);
    return file_remove_folder(path, err);
}

/* The generation in a name from checkpoint_temporary, 0 without one, or -1 for other names. */
static int64_t unfinished_of(const char *name)
{
    size_t size = strlen(name);
    if (!str_starts(name, ".step-") || size < 4 || strcmp(name + size - 4, ".tmp") != 0)
        return -1;
    const char *dash = strchr(name + strlen(".step-"), '-');
    unsigned long long generation = dash ? strtoull(dash + 1, NULL, 10) : 0;
    return generation > INT64_MAX ? 0 : (int64_t)generation;
}

static int sweep_aside(const char *dir, const char *name, const char *path, struct error *err)
{
    char final[CHECKPOINT_PATH_MAX];
    int64_t step;
    const char *digits = name + strlen(aside_prefix);
    char number[32];
    if (str_copy(number, sizeof(number), digits) || strlen(number) < 4)
        return 0;
    number[strlen(number) - 4] = 0; /* ".tmp" */
    if (parse_i64(number, 0, INT64_MAX, &step, NULL) || checkpoint_path(dir, step, final))
        return 0;
    if (access(final, F_OK) && rename(path, final) == 0)
        return 0;
    return file_remove_folder(path, err);
}

int checkpoint_sweep(const char *dir, uint64_t generation, const char *keep, struct error *err)
{
    DIR *folder = opendir(dir);
    if (!folder)
        return errno == ENOENT ? 0 : error_errno(err, errno, "checkpoints in %s", dir);
    const struct dirent *entry;
    int rc = 0;
    while (!rc && (entry = readdir(folder))) {
        char path[CHECKPOINT_PATH_MAX];
        int64_t of = unfinished_of(entry->d_name);
        if (str_printf(path, sizeof(path), "%s/%s", dir, entry->d_name) || strcmp(path, keep) == 0)
            continue;
        if (str_starts(entry->d_name, aside_prefix))
            rc = sweep_aside(dir, entry->d_name, path, err);
        else if (of >= 0 && (uint64_t)of <= generation)
            rc = file_remove_folder(path, err);
    }
    (void)closedir(folder);
    return rc;
}

int checkpoint_prune(const char *dir, int64_t newest, int keep, struct error *err)
{
    int64_t *steps;
    int count;
    if (keep <= 0)
        return 0;
    int rc = list(dir, false, &steps, &count, err);
    if (rc)
        return rc;
    while (count && steps[count - 1] > newest)
        count--;
    for (int i = 0; i < count - keep && !rc; i++) {
        char path[CHECKPOINT_PATH_MAX];
        rc = checkpoint_path(dir, steps[i], path);
        if (!rc)
            rc = checkpoint_remove(path, err);
    }
    free(steps);
    return rc;
}

int checkpoint_lock(const char *dir, int *ret_fd, struct error *err)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *ret_fd = fd;
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0)
        return 0;
    bool held = errno == EWOULDBLOCK;
    close(fd);
    *ret_fd = -1;
    return held ? error_set(err, WK_ESTATE, "another program writes to %s", dir) : 0;
}
