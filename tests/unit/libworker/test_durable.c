/* Checkpoints whatever the disk does: the calls to it are counted, one of them fails, and what a
 * crash would leave is known at every moment.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <worker/error.h>

#include "libworker/checkpoint/folder.h"
#include "libworker/checkpoint/list.h"
#include "libworker/checkpoint/load.h"
#include "libworker/checkpoint/write.h"
#include "tests/lib/open_files.h"
#include "tests/lib/tmpdir.h"

enum { COUNT = 5000, UNSYNCED_MAX = 64, STEP = 5, SHARDS = 2 };

static float weights[COUNT];
static struct checkpoint_tensor tensor = {
    .name = "model.w", .dtype = WK_F32, .dims = 1, .shape = {COUNT}, .data = weights};

/* The disk: which inodes a crash would lose something of, and which call is to fail. */
static ino_t unsynced[UNSYNCED_MAX];
static int unsynced_count, calls, fails_at, short_writes;
static bool watching, placed_unsynced;

static void forget(ino_t inode)
{
    for (int i = 0; i < unsynced_count; i++)
        if (unsynced[i] == inode)
            unsynced[i--] = unsynced[--unsynced_count];
}

static void changed(ino_t inode)
{
    forget(inode);
    cr_assert_lt(unsynced_count, UNSYNCED_MAX);
    unsynced[unsynced_count++] = inode;
}

static ino_t inode_of(int fd)
{
    struct stat st;
    return fstat(fd, &st) ? 0 : st.st_ino;
}

static ino_t inode_at(const char *path, bool parent)
{
    char at[CHECKPOINT_PATH_MAX];
    struct stat st;
    snprintf(at, sizeof(at), "%s", path);
    if (parent)
        *strrchr(at, '/') = 0;
    return stat(at, &st) ? 0 : st.st_ino;
}

static bool is_unsynced(ino_t inode)
{
    for (int i = 0; i < unsynced_count; i++)
        if (unsynced[i] == inode)
            return true;
    return false;
}

/* Whether this call is the one to fail. */
static bool fails(void)
{
    errno = EIO;
    return watching && ++calls == fails_at;
}

ssize_t __real_write(int fd, const void *data, size_t size);
int __real_fsync(int fd);
int __real_close(int fd);
int __real_openat(int folder, const char *name, int flags, mode_t mode);
int __real_mkdir(const char *path, mode_t mode);
int __real_rename(const char *from, const char *to);
int __real_renameat(int from_folder, const char *from, int to_folder, const char *to);
int __real_renameat2(int from_folder, const char *from, int to_folder, const char *to,
                     unsigned how);
ssize_t __wrap_write(int fd, const void *data, size_t size);
int __wrap_fsync(int fd);
int __wrap_close(int fd);
int __wrap_openat(int folder, const char *name, int flags, mode_t mode);
int __wrap_mkdir(const char *path, mode_t mode);
int __wrap_rename(const char *from, const char *to);
int __wrap_renameat(int from_folder, const char *from, int to_folder, const char *to);
int __wrap_renameat2(int from_folder, const char *from, int to_folder, const char *to,
                     unsigned how);

ssize_t __wrap_write(int fd, const void *data, size_t size)
{
    if (!watching)
        return __real_write(fd, data, size);
    if (fails())
        return -1;
    if (short_writes && calls % 2) {
        errno = EINTR;
        return -1;
    }
    changed(inode_of(fd));
    return __real_write(fd, data, short_writes && size > 1 ? size / 2 : size);
}

int __wrap_fsync(int fd)
{
    if (fails())
        return -1;
    forget(inode_of(fd));
    return __real_fsync(fd);
}

int __wrap_close(int fd)
{
    bool failed = fails(); /* Linux has closed it nevertheless */
    int rc = __real_close(fd);
    errno = failed ? EIO : errno;
    return failed ? -1 : rc;
}

int __wrap_openat(int folder, const char *name, int flags, mode_t mode)
{
    if (fails())
        return -1;
    if (watching && flags & O_CREAT)
        changed(inode_of(folder));
    return __real_openat(folder, name, flags, mode);
}

int __wrap_mkdir(const char *path, mode_t mode)
{
    return fails() ? -1 : __real_mkdir(path, mode);
}

/* Into its place go only files and names that are on disk. */
static void check_place(const char *from)
{
    char path[CHECKPOINT_PATH_MAX];
    const struct dirent *entry;
    DIR *folder = opendir(from);
    while (folder && (entry = readdir(folder))) {
        if (strcmp(entry->d_name, "..") == 0)
            continue;
        snprintf(path, sizeof(path), "%s/%s", from, entry->d_name);
        placed_unsynced = placed_unsynced || is_unsynced(inode_at(path, false));
    }
    if (folder)
        closedir(folder);
}

static void moved(const char *from, const char *to)
{
    if (!watching)
        return;
    if (checkpoint_step_of(to) == STEP)
        check_place(from);
    changed(inode_at(to, true));
}

int __wrap_rename(const char *from, const char *to)
{
    if (fails())
        return -1;
    moved(from, to);
    return __real_rename(from, to);
}

int __wrap_renameat(int from_folder, const char *from, int to_folder, const char *to)
{
    if (fails())
        return -1;
    if (watching)
        changed(inode_of(to_folder));
    return __real_renameat(from_folder, from, to_folder, to);
}

int __wrap_renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned how)
{
    if (fails())
        return -1;
    moved(from, to);
    return __real_renameat2(from_folder, from, to_folder, to, how);
}

static void fill(float base)
{
    for (int i = 0; i < COUNT; i++)
        weights[i] = base + (float)i;
}

/* One shard of SHARDS, or the whole (shards = 1). */
static int write_one(const char *dir, int rank, int shards, struct error *err)
{
    struct train_numbers numbers = {.step = STEP, .n_units = 1};
    struct checkpoint_about about = {.generation = 3,
                                     .world = shards,
                                     .mesh_dp = shards,
                                     .strategy = "fsdp",
                                     .rank = rank,
                                     .shards = shards,
                                     .ticket = 7};
    tensor.first = COUNT / shards * rank;
    tensor.data = weights + tensor.first;
    tensor.bytes = sizeof(weights) / (size_t)shards;
    struct checkpoint_write what = {
        .dir = dir, .tensors = &tensor, .n_tensors = 1, .numbers = &numbers, .about = &about};
    return checkpoint_write(&what, err);
}

/* The last ranks first: rank 0 waits for their notes. */
static int write_all(const char *dir, int shards)
{
    int rc = 0;
    for (int rank = shards - 1; rank >= 0 && !rc; rank--)
        rc = write_one(dir, rank, shards, NULL);
    return rc;
}

/* The first weight of a whole checkpoint, 0 if there is none; what is there but not whole fails. */
static float loaded(const char *dir)
{
    char path[CHECKPOINT_PATH_MAX];
    struct train_numbers back;
    struct error err = {0};
    float kept[COUNT];
    memcpy(kept, weights, sizeof(kept));
    memset(weights, 0, sizeof(weights));
    cr_assert_eq(checkpoint_path(dir, STEP, path), 0);
    tensor.first = 0, tensor.data = weights, tensor.bytes = sizeof(weights);
    int rc = checkpoint_load(path, &tensor, 1, &back, &err);
    float first = weights[0];
    cr_assert(rc == WK_ENOTFOUND || (rc == 0 && weights[COUNT - 1] == first + COUNT - 1),
              "call %d: %d %s", fails_at, rc, err.text);
    memcpy(weights, kept, sizeof(kept));
    return rc ? 0 : first;
}

Test(durable, nothing_takes_its_place_before_it_is_on_disk)
{
    for (int shards = 1; shards <= SHARDS; shards++) {
        struct tmpdir dir = tmpdir_make();
        for (int round = 0; round < 2; round++) { /* the second replaces */
            fill(1);
            watching = true, unsynced_count = 0;
            cr_assert_eq(write_all(dir.path, shards), 0);
            watching = false;
            cr_expect_not(placed_unsynced, "%d shards", shards);
            cr_expect_not(is_unsynced(inode_at(dir.path, false)), "its name may be lost");
        }
        tmpdir_remove(&dir);
    }
}

Test(durable, short_and_interrupted_writes_go_on)
{
    struct tmpdir dir = tmpdir_make();
    fill(1);
    watching = true, short_writes = true;
    cr_assert_eq(write_all(dir.path, 1), 0);
    watching = false;
    cr_assert_eq(loaded(dir.path), 1);
    tmpdir_remove(&dir);
}

/* Nothing was there, or something that counted. */
static void fail_each_call(int shards, bool over)
{
    bool failed = true;
    for (fails_at = 1; failed; fails_at++) {
        struct tmpdir dir = tmpdir_make();
        fill(1);
        cr_assert_eq(over ? write_all(dir.path, shards) : 0, 0);
        fill(2);
        int before = open_files();
        watching = true, calls = 0;
        int rc = write_all(dir.path, shards);
        watching = false;
        failed = calls >= fails_at;
        float got = loaded(dir.path);
        cr_assert_eq(open_files(), before, "call %d leaves a file open", fails_at);
        cr_assert(got == 2 || (rc && got == (over ? 1 : 0)), "call %d: %d", fails_at, rc);
        cr_assert_lt(fails_at, 1000);
        tmpdir_remove(&dir);
    }
    cr_assert_gt(fails_at, 10, "calls that could fail were seen");
    fails_at = 0;
}

Test(durable, whichever_call_fails_it_is_whole_or_absent)
{
    fail_each_call(1, false);
}

Test(durable, whichever_call_fails_what_counted_is_there)
{
    fail_each_call(1, true);
}

Test(durable, whichever_call_of_two_ranks_fails_it_is_whole_or_absent)
{
    fail_each_call(SHARDS, false);
}

Test(durable, what_fails_is_told)
{
    int untold = 0, all = 1;
    for (fails_at = 0; fails_at <= all; fails_at++) {
        struct tmpdir dir = tmpdir_make();
        watching = true, calls = 0;
        untold += write_all(dir.path, 1) == 0;
        watching = false;
        all = fails_at ? all : calls;
        tmpdir_remove(&dir);
    }
    /* The first time none fails; and folders, which were only read from, are closed twice. */
    cr_expect_eq(untold, 1 + 2, "%d of %d", untold, all);
}
