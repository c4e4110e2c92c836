#include "common/env/disk_remove.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/str.h"

enum {
    DEPTH_MAX = 32,      /* folders open at a time; deeper ones are moved up first */
    PASSES_MAX = 4096,   /* over the topmost folder: a path of 32 * 4096 folders is removed */
    AGAIN_MAX = 8,       /* passes over what appeared while the one before worked */
    NAMES_MAX = 1 << 20, /* tried for folders that are moved up */
    MOVED_NAME_MAX = 48,
};

struct removal {
    int top_fd;     /* of the folder itself, where deep folders are moved */
    dev_t device;   /* other file systems are not entered */
    bool moved;     /* in this pass */
    unsigned names; /* given to moved folders */
    int problem;    /* the first errno */
};

static void note_problem(struct removal *removal, int problem)
{
    if (!removal->problem && problem != ENOENT)
        removal->problem = problem;
}

/* A folder `name` in `fd` that may be entered, open; -1 with errno. */
static int open_folder(const struct removal *removal, int fd, const char *name)
{
    struct stat outer, inner;
    int child = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (child < 0)
        return -1;
    int problem = fstat(fd, &outer) < 0 || fstat(child, &inner) < 0 ? errno : 0;
    if (!problem && inner.st_dev != removal->device)
        problem = EXDEV;
    if (!problem && outer.st_uid != geteuid() && inner.st_uid != outer.st_uid)
        problem = EPERM;
    if (!problem)
        return child;
    close(child);
    errno = problem;
    return -1;
}

/* Deep folders are emptied in the next pass. The name may be in use, because the worker can write
 * there. */
static void move_up(struct removal *removal, int fd, const char *name)
{
    char moved[MOVED_NAME_MAX];
    int rc;
    do {
        (void)str_printf(moved, sizeof(moved), ".removed-%u", removal->names++);
        rc = renameat2(fd, name, removal->top_fd, moved, RENAME_NOREPLACE);
    } while (rc < 0 && errno == EEXIST && removal->names < NAMES_MAX);
    if (rc < 0)
        note_problem(removal, errno);
    else
        removal->moved = true;
}

static void empty_folder(struct removal *removal, int fd, int depth);

static void remove_entry(struct removal *removal, int fd, const char *name, int depth)
{
    if (unlinkat(fd, name, 0) == 0 || errno == ENOENT)
        return;
    if (errno != EISDIR && errno != EPERM) {
        note_problem(removal, errno);
        return;
    }
    if (unlinkat(fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
        return;
    if (errno != ENOTEMPTY && errno != EEXIST) {
        note_problem(removal, errno);
        return;
    }
    if (depth == DEPTH_MAX) {
        move_up(removal, fd, name);
        return;
    }
    int child = open_folder(removal, fd, name);
    if (child < 0) {
        note_problem(removal, errno);
        return;
    }
    empty_folder(removal, child, depth + 1);
    close(child);
    if (unlinkat(fd, name, AT_REMOVEDIR) < 0)
        note_problem(removal, errno);
}

/* NOLINTNEXTLINE(misc-no-recursion): to DEPTH_MAX */
static void empty_folder(struct removal *removal, int fd, int depth)
{
    struct dirent *entry;
    int own = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = own < 0 ? NULL : fdopendir(own);
    if (!dir) {
        note_problem(removal, errno);
        if (own >= 0)
            close(own);
        return;
    }
    while ((entry = readdir(dir)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            remove_entry(removal, fd, entry->d_name, depth);
    closedir(dir);
}

static int remove_folder(int parent_fd, const char *name, int top_fd)
{
    struct stat status;
    struct removal removal = {.top_fd = top_fd};
    if (fstat(top_fd, &status) < 0)
        return errno;
    removal.device = status.st_dev;
    for (int pass = 0, again = 0; pass < PASSES_MAX; pass++) {
        removal.moved = false;
        removal.problem = 0; /* the last pass reports what remains, and why */
        empty_folder(&removal, top_fd, 0);
        if (unlinkat(parent_fd, name, AT_REMOVEDIR) == 0)
            return 0;
        note_problem(&removal, errno);
        if (!removal.moved && ++again == AGAIN_MAX)
            break;
    }
    return removal.problem;
}

int disk_remove(const char *path)
{
    char folder[PATH_MAX], last[NAME_MAX + 1];
    const char *end = path + strlen(path);
    while (end > path + 1 && end[-1] == '/')
        end--;
    const char *name = end;
    while (name > path && name[-1] != '/')
        name--;
    if (name == end || name == path || name - path >= PATH_MAX ||
        str_printf(last, sizeof(last), "%.*s", (int)(end - name), name) ||
        str_printf(folder, sizeof(folder), "%.*s", (int)(name - path), path))
        return EINVAL;
    int parent = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (parent < 0)
        return errno == ENOENT ? 0 : errno;
    int problem = 0;
    if (unlinkat(parent, last, 0) < 0 && errno != ENOENT) {
        int top = openat(parent, last, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        problem = top < 0 ? errno : remove_folder(parent, last, top);
        if (top >= 0)
            close(top);
    }
    close(parent);
    return problem;
}
