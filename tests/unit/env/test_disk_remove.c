#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/env/disk_os.h"
#include "tests/lib/tmpdir.h"

enum { BAIT_FILES = 4000, RACES = 20, DEEP = 3000, OTHER_USER = 65533 };

static struct disk disk;
static struct tmpdir dir;
static struct error err;

static void setup(void)
{
    disk = disk_os();
    dir = tmpdir_make();
}

static void teardown(void)
{
    tmpdir_remove(&dir);
}

TestSuite(disk_remove, .init = setup, .fini = teardown);

static void make_folder(const char *name)
{
    cr_assert_eq(mkdir(tmpdir_path(&dir, name), 0755), 0, "%s: %s", name, strerror(errno));
}

static void make_file(const char *name)
{
    int fd = open(tmpdir_path(&dir, name), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    cr_assert(fd >= 0, "%s: %s", name, strerror(errno));
    close(fd);
}

static bool is_there(const char *name)
{
    struct stat status;
    return lstat(tmpdir_path(&dir, name), &status) == 0;
}

static int removal(const char *name)
{
    return disk.remove_tree(disk.self, tmpdir_path(&dir, name), &err);
}

/* Once the deletion has begun, `run/d` is another folder's name. */
static void *swap(void *arg)
{
    atomic_bool *swapped = arg;
    char last[512], from[512], to[512], link[512];
    snprintf(last, sizeof(last), "%s/run/d/0", dir.path);
    snprintf(from, sizeof(from), "%s/run/d", dir.path);
    snprintf(to, sizeof(to), "%s/run/moved", dir.path);
    snprintf(link, sizeof(link), "%s/precious", dir.path);
    while (access(from, F_OK) == 0) {
        if (access(last, F_OK) == 0)
            continue;
        if (rename(from, to) == 0 && symlink(link, from) == 0)
            atomic_store(swapped, true);
        return NULL;
    }
    return NULL;
}

static void fill(const char *folder)
{
    char name[64];
    make_folder(folder);
    for (int i = 0; i < BAIT_FILES; i++) {
        snprintf(name, sizeof(name), "%s/%d", folder, i);
        make_file(name);
    }
}

/* Review C2: a worker swaps a folder of its own for a link while the agent deletes it. */
Test(disk_remove, a_folder_swapped_for_a_link_leads_nowhere)
{
    char name[64];
    fill("precious");
    int swaps = 0;
    for (int race = 0; race < RACES && !swaps; race++) {
        atomic_bool swapped = false;
        pthread_t thread;
        make_folder("run");
        fill("run/d");
        cr_assert_eq(pthread_create(&thread, NULL, swap, &swapped), 0);
        int rc = removal("run");
        pthread_join(thread, NULL);
        cr_assert(rc || !is_there("run"));
        swaps += swapped;
        for (int i = 0; i < BAIT_FILES; i++) {
            snprintf(name, sizeof(name), "precious/%d", i);
            cr_assert(is_there(name), "%s was deleted through a link", name);
        }
        cr_assert_eq(removal("run"), 0, "%s", err.text);
    }
    cr_assert(swaps > 0, "no race was won: the test shows nothing");
}

Test(disk_remove, depth_has_no_limit)
{
    int at = open(dir.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < DEEP; i++) {
        cr_assert_eq(mkdirat(at, "d", 0755), 0);
        int next = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        close(at);
        at = next;
    }
    close(at);
    cr_assert_eq(removal("d"), 0, "%s", err.text);
    cr_assert_not(is_there("d"));
}

Test(disk_remove, a_link_and_a_file_are_removed_themselves)
{
    make_folder("there");
    make_file("there/file");
    cr_assert_eq(symlink(tmpdir_path(&dir, "there"), tmpdir_path(&dir, "link")), 0);
    cr_assert_eq(removal("link"), 0, "%s", err.text);
    cr_assert_not(is_there("link"));
    cr_assert(is_there("there/file"));
    cr_assert_eq(removal("there/file"), 0, "%s", err.text);
    cr_assert_eq(removal("there/"), 0, "%s", err.text);
    cr_assert_not(is_there("there"));
}

/* A folder of root's that everybody may write to can be moved below one of the worker's. */
Test(disk_remove, what_belongs_to_somebody_else_is_not_entered)
{
    if (geteuid() != 0)
        cr_skip_test("needs root: folders of other users");
    make_folder("run");
    make_folder("run/work");
    make_file("run/work/own");
    make_folder("run/work/foreign");
    make_file("run/work/foreign/precious");
    cr_assert_eq(chown(tmpdir_path(&dir, "run/work"), OTHER_USER, OTHER_USER), 0);
    cr_assert_eq(removal("run"), E_PERMISSION_DENIED, "%s", err.text);
    cr_assert(is_there("run/work/foreign/precious"));
    cr_assert_not(is_there("run/work/own"));
}

Test(disk_remove, another_file_system_is_not_entered)
{
    make_folder("run");
    make_folder("run/mount");
    if (mount("none", tmpdir_path(&dir, "run/mount"), "tmpfs", 0, NULL))
        cr_skip_test("needs the right to mount");
    make_file("run/mount/precious");
    cr_expect_neq(removal("run"), 0);
    cr_expect(is_there("run/mount/precious"));
    cr_assert_eq(umount(tmpdir_path(&dir, "run/mount")), 0);
    cr_assert_eq(removal("run"), 0, "%s", err.text);
}
