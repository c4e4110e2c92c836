#include <criterion/criterion.h>
#include <string.h>
#include <sys/resource.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/env/disk_os.h"
#include "tests/lib/tmpdir.h"

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

TestSuite(disk_os, .init = setup, .fini = teardown);

static int count_names(const char *path)
{
    char **names;
    int count = 0;
    cr_assert_eq(disk.list(disk.self, path, &names, &err), 0);
    while (names[count])
        count++;
    free(names);
    return count;
}

Test(disk_os, a_written_file_reads_back_with_its_mode_and_no_temporary_stays)
{
    const char *path = tmpdir_path(&dir, "state");
    char *data;
    size_t size;
    struct stat st;
    cr_assert_eq(disk.write_file(disk.self, path, "a\0b", 3, 0640, &err), 0, "%s", err.text);
    cr_assert_eq(disk.read_file(disk.self, path, 3, &data, &size, &err), 0);
    cr_assert_eq(size, 3);
    cr_assert_eq(memcmp(data, "a\0b", 4), 0, "terminated");
    free(data);
    stat(path, &st);
    cr_assert_eq(st.st_mode & 07777, 0640);
    cr_assert_eq(disk.write_file(disk.self, path, "", 0, 0600, &err), 0);
    cr_assert_eq(disk.read_file(disk.self, path, 0, &data, &size, &err), 0);
    cr_assert_eq(size, 0);
    free(data);
    cr_assert_eq(count_names(dir.path), 1);
}

Test(disk_os, a_replaced_file_has_its_mode_and_no_temporary_stays)
{
    const char *path = tmpdir_path(&dir, "state");
    struct buf text = {0};
    char *data;
    size_t size;
    struct stat st;
    cr_assert_eq(buf_str(&text, "new"), 0);
    cr_assert_eq(disk.write_file(disk.self, path, "older", 5, 0640, &err), 0);
    cr_assert_eq(disk_replace(path, &text, 0600, &err), 0, "%s", err.text);
    cr_assert_eq(disk_replace("state", &text, 0600, &err), E_INVALID_ARGUMENT);
    cr_assert_eq(disk.read_file(disk.self, path, 3, &data, &size, &err), 0);
    cr_assert_str_eq(data, "new");
    free(data);
    buf_fini(&text);
    stat(path, &st);
    cr_assert_eq(st.st_mode & 07777, 0600);
    cr_assert_eq(count_names(dir.path), 1);
}

Test(disk_os, a_failed_write_leaves_the_old_content)
{
    const char *path = tmpdir_path(&dir, "state");
    char *data, large[100000];
    size_t size;
    struct rlimit before, small = {.rlim_cur = 50000, .rlim_max = RLIM_INFINITY};
    memset(large, 'x', sizeof(large));
    cr_assert_eq(disk.write_file(disk.self, path, "old", 3, 0600, &err), 0);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    small.rlim_max = before.rlim_max;
    setrlimit(RLIMIT_FSIZE, &small);
    cr_assert_eq(disk.write_file(disk.self, path, large, sizeof(large), 0600, &err),
                 E_RESOURCE_EXHAUSTED);
    setrlimit(RLIMIT_FSIZE, &before);
    cr_assert_eq(disk.read_file(disk.self, path, 100, &data, &size, &err), 0);
    cr_assert_str_eq(data, "old");
    free(data);
    cr_assert_eq(count_names(dir.path), 1, "no temporary stays");
}

Test(disk_os, larger_than_allowed_is_refused)
{
    const char *path = tmpdir_path(&dir, "large");
    char text[10000], *data;
    size_t size;
    memset(text, 'y', sizeof(text));
    cr_assert_eq(disk.write_file(disk.self, path, text, sizeof(text), 0600, &err), 0);
    cr_assert_eq(disk.read_file(disk.self, path, 9999, &data, &size, &err), E_RESOURCE_EXHAUSTED);
    cr_assert_eq(disk.read_file(disk.self, path, 10000, &data, &size, &err), 0);
    cr_assert_eq(size, 10000);
    free(data);
    cr_assert_eq(disk.read_file(disk.self, "/proc/self/status", 100000, &data, &size, &err), 0);
    cr_assert_gt(size, 100, "files that say they are empty are read to their end");
    free(data);
}

Test(disk_os, appends_and_ranges)
{
    const char *path = tmpdir_path(&dir, "log");
    char part[4];
    size_t size;
    cr_assert_eq(disk.append_file(disk.self, path, "hello ", 6, &err), 0);
    cr_assert_eq(disk.append_file(disk.self, path, "world", 5, &err), 0);
    cr_assert_eq(disk.read_range(disk.self, path, 4, part, 4, &size, &err), 0);
    cr_assert_eq(size, 4);
    cr_assert_eq(memcmp(part, "o wo", 4), 0);
    cr_assert_eq(disk.read_range(disk.self, path, 9, part, 4, &size, &err), 0);
    cr_assert_eq(size, 2);
    cr_assert_eq(disk.read_range(disk.self, path, 11, part, 4, &size, &err), 0);
    cr_assert_eq(size, 0);
    cr_assert_eq(disk.read_range(disk.self, path, 1ull << 40, part, 4, &size, &err), 0);
    cr_assert_eq(size, 0);
    cr_assert_eq(disk.read_range(disk.self, path, UINT64_MAX, part, 4, &size, &err),
                 E_OUT_OF_RANGE);
}

Test(disk_os, folders_are_made_listed_in_byte_order_and_removed)
{
    char deep[600];
    char **names;
    snprintf(deep, sizeof(deep), "%s/a/b//c/", dir.path);
    cr_assert_eq(disk.make_dirs(disk.self, deep, 0700, &err), 0, "%s", err.text);
    cr_assert_eq(disk.make_dirs(disk.self, deep, 0700, &err), 0);
    static const char *const files[] = {"a/z", "a/B", "a/.hidden"};
    for (int i = 0; i < 3; i++)
        disk.append_file(disk.self, tmpdir_path(&dir, files[i]), "x", 1, &err);
    cr_assert_eq(symlink("/etc", tmpdir_path(&dir, "a/link")), 0);
    cr_assert_eq(disk.list(disk.self, tmpdir_path(&dir, "a"), &names, &err), 0);
    static const char *const expected[] = {".hidden", "B", "b", "link", "z"};
    for (int i = 0; i < 5; i++)
        cr_assert_str_eq(names[i], expected[i]);
    cr_assert_null(names[5]);
    free(names);
    cr_assert_eq(disk.make_dirs(disk.self, tmpdir_path(&dir, "a/z/y"), 0700, &err),
                 E_INVALID_ARGUMENT);
    cr_assert_eq(disk.remove_tree(disk.self, tmpdir_path(&dir, "a"), &err), 0, "%s", err.text);
    cr_assert_eq(disk.remove_tree(disk.self, tmpdir_path(&dir, "a"), &err), 0, "absent is fine");
    cr_assert_eq(access("/etc/passwd", F_OK), 0, "links are not followed");
    cr_assert_eq(count_names(dir.path), 0);
}

Test(disk_os, relative_and_dangerous_paths_are_refused)
{
    char *data;
    size_t size;
    char **names;
    uint64_t bytes;
    cr_assert_eq(disk.read_file(disk.self, "x", 1, &data, &size, &err), E_INVALID_ARGUMENT);
    cr_assert_eq(disk.write_file(disk.self, "x", "", 0, 0600, &err), E_INVALID_ARGUMENT);
    cr_assert_eq(disk.append_file(disk.self, "", "", 0, &err), E_INVALID_ARGUMENT);
    cr_assert_eq(disk.make_dirs(disk.self, "x", 0700, &err), E_INVALID_ARGUMENT);
    cr_assert_eq(disk.remove_tree(disk.self, "x", &err), E_INVALID_ARGUMENT);
    cr_assert_eq(disk.remove_tree(disk.self, "/", &err), E_INVALID_ARGUMENT);
    cr_assert_eq(disk.remove_tree(disk.self, "//..", &err), E_INVALID_ARGUMENT);
    cr_assert_eq(disk.list(disk.self, ".", &names, &err), E_INVALID_ARGUMENT);
    cr_assert_eq(disk.free_bytes(disk.self, "x", &bytes, &err), E_INVALID_ARGUMENT);
}

Test(disk_os, what_is_absent_is_not_found)
{
    char *data;
    size_t size;
    char **names;
    uint64_t bytes = 0;
    const char *path = tmpdir_path(&dir, "absent");
    cr_assert_eq(disk.read_file(disk.self, path, 10, &data, &size, &err), E_NOT_FOUND);
    cr_assert_eq(disk.read_range(disk.self, path, 0, &bytes, 1, &size, &err), E_NOT_FOUND);
    cr_assert_eq(disk.list(disk.self, path, &names, &err), E_NOT_FOUND);
    cr_assert_eq(disk.free_bytes(disk.self, path, &bytes, &err), E_NOT_FOUND);
    cr_assert_eq(disk.write_file(disk.self, tmpdir_path(&dir, "no/x"), "", 0, 0600, &err),
                 E_NOT_FOUND);
    cr_assert_eq(disk.free_bytes(disk.self, dir.path, &bytes, &err), 0);
    cr_assert_gt(bytes, 0);
}
