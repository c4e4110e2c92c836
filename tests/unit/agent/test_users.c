/* Whom tenants run as. Most of it needs root; what does not is tested by everybody. */
#include <criterion/criterion.h>

#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/users.h"
#include "common/env/disk_os.h"
#include "tests/lib/tmpdir.h"

static struct tmpdir dir;
static struct disk disk;
static struct users users;
static struct error err;
static struct arena arena;

static void begin(void)
{
    dir = tmpdir_make();
    disk = disk_os();
}

static void end(void)
{
    users_fini(&users);
    arena_fini(&arena);
    tmpdir_remove(&dir);
}

TestSuite(users, .init = begin, .fini = end);

static void need_root(void)
{
    if (geteuid() != 0)
        cr_skip_test("needs root: running as other users");
}

static int start(struct users_options options)
{
    options.dir = dir.path;
    err = (struct error){0};
    users_fini(&users);
    return users_init(&users, &options, &disk, &err);
}

static const char *table(const char *text)
{
    const char *path = tmpdir_path(&dir, "users");
    cr_assert_eq(disk.write_file(disk.self, path, text, strlen(text), 0600, &err), 0);
    return path;
}

static const struct launch_user *find(const char *tenant)
{
    const struct launch_user *user;
    int rc = users_find(&users, tenant, &arena, &user, &err);
    cr_assert_eq(rc, 0, "%s", err.text);
    return user;
}

static int refusal(const char *tenant)
{
    const struct launch_user *user;
    err = (struct error){0};
    return users_find(&users, tenant, &arena, &user, &err);
}

Test(users, root_gives_its_own_user_to_nobody_unasked)
{
    need_root();
    cr_expect_eq(start((struct users_options){0}), E_INVALID_ARGUMENT);
    cr_expect(strstr(err.hint, "--worker-uids") && strstr(err.hint, "--allow-root-workers"));
    cr_expect_eq(start((struct users_options){.user = "root"}), E_INVALID_ARGUMENT);
    cr_assert_eq(start((struct users_options){.allow_root = true}), 0, "%s", err.text);
    cr_expect_null(find("red"));
    cr_expect_not(users.change);
    cr_expect(strstr(users.lacks, "run as root"), "%s", users.lacks);
}

Test(users, others_run_workers_as_themselves_only)
{
    enum { NOBODY = 65534 };
    bool is_root = geteuid() == 0; /* the folder's owner can remove it */
    if (is_root && (chown(dir.path, NOBODY, NOBODY) || setresuid(NOBODY, NOBODY, NOBODY)))
        cr_skip_test("cannot give up root");
    cr_expect_eq(start((struct users_options){.uids = "5000-5009"}), E_PERMISSION_DENIED);
    cr_expect_eq(start((struct users_options){.user = "root"}), E_PERMISSION_DENIED);
    cr_assert_eq(start((struct users_options){0}), 0, "%s", err.text);
    cr_expect_null(find("red"));
    cr_expect(strstr(users.lacks, "the agent's user"), "%s", users.lacks);
    cr_assert_eq(start((struct users_options){.allow_root = true}), 0, "%s", err.text);
}

Test(users, a_range_gives_each_tenant_a_uid_that_stays_its_own)
{
    need_root();
    struct stat status;
    uid_t uids[10];
    char name[16];
    cr_assert_eq(start((struct users_options){.uids = "1900000000-1900000009"}), 0, "%s", err.text);
    for (int i = 0; i < 10; i++) {
        snprintf(name, sizeof(name), "tenant%d", i);
        const struct launch_user *user = find(name);
        uids[i] = user->uid;
        cr_expect(uids[i] >= 1900000000 && uids[i] <= 1900000009 && user->gid == uids[i]);
        cr_expect(user->groups_count == 0 && strcmp(user->name, name) == 0);
        cr_assert_eq(stat(user->home, &status), 0, "%s", user->home);
        cr_expect(status.st_uid == uids[i] && (status.st_mode & 0777) == 0700);
        for (int j = 0; j < i; j++)
            cr_expect_neq(uids[i], uids[j], "two tenants share a uid");
    }
    cr_expect_eq(refusal("eleventh"), E_RESOURCE_EXHAUSTED);
    cr_assert_eq(start((struct users_options){.uids = "1900000100-1900000109"}), 0, "%s", err.text);
    cr_expect_eq(find("tenant3")->uid, uids[3], "also after a restart with another range");
    cr_expect(find("new")->uid >= 1900000100);
    cr_assert_eq(stat(tmpdir_path(&dir, "uids"), &status), 0);
    cr_expect_eq(status.st_mode & 0777, 0600);
}

Test(users, no_user_and_no_group_of_the_system_is_given)
{
    need_root();
    const struct passwd *nobody = getpwnam("nobody");
    char range[32], record[32];
    cr_assert_not_null(nobody);
    unsigned uid = nobody->pw_uid;
    snprintf(range, sizeof(range), "%u-%u", uid, uid + 1);
    cr_assert_eq(start((struct users_options){.uids = range}), 0, "%s", err.text);
    cr_expect_eq(find("red")->uid, uid + 1);
    cr_expect_eq(refusal("blue"), E_RESOURCE_EXHAUSTED);
    int size = snprintf(record, sizeof(record), "green %u\n", uid);
    const char *path = tmpdir_path(&dir, "uids");
    cr_assert_eq(disk.write_file(disk.self, path, record, (size_t)size, 0600, &err), 0);
    cr_assert_eq(start((struct users_options){.uids = range}), 0, "%s", err.text);
    cr_expect_eq(refusal("green"), E_FAILED_PRECONDITION, "it was made for nobody since");
}

Test(users, nodes_agree_on_a_tenant_uid)
{
    need_root();
    cr_assert_eq(start((struct users_options){.uids = "1900000000-1900999999"}), 0, "%s", err.text);
    uid_t here = find("red")->uid;
    (void)find("blue");
    struct tmpdir other = tmpdir_make(), first = dir;
    dir = other;
    cr_assert_eq(start((struct users_options){.uids = "1900000000-1900999999"}), 0, "%s", err.text);
    (void)find("green");
    cr_expect_eq(find("red")->uid, here);
    tmpdir_remove(&other);
    dir = first;
}

Test(users, a_damaged_record_of_uids_gives_none)
{
    need_root();
    const char *path = tmpdir_path(&dir, "uids");
    cr_assert_eq(disk.write_file(disk.self, path, "red\n", 4, 0600, &err), 0);
    cr_expect_eq(start((struct users_options){.uids = "5000-5009"}), E_DATA_LOSS, "%s", err.text);
}

Test(users, a_file_names_users)
{
    need_root();
    const struct passwd *nobody = getpwnam("nobody");
    cr_assert_not_null(nobody);
    uid_t uid = nobody->pw_uid;
    const char *path = table("# tenant user\n\nred   nobody\nblue\troot\n* *\n");
    cr_assert_eq(start((struct users_options){.table = path}), 0, "%s", err.text);
    cr_expect(users.change);
    cr_expect_eq(find("red")->uid, uid);
    cr_expect_str_eq(find("red")->name, "nobody");
    cr_expect_str_eq(users.lacks, "");
    cr_expect_eq(refusal("blue"), E_PERMISSION_DENIED, "root by the file");
    cr_expect_eq(refusal("no-such-user-here"), E_NOT_FOUND);
    cr_expect_eq(refusal("root"), E_PERMISSION_DENIED, "root by its name");
    cr_expect_eq(refusal("daemon"), E_PERMISSION_DENIED, "%s", err.text);
    cr_expect_eq(find("nobody")->uid, uid);
    cr_expect_eq(refusal(""), E_INVALID_ARGUMENT);
    cr_expect_eq(refusal("a\nb"), E_INVALID_ARGUMENT);
}

Test(users, a_tenant_without_a_user_is_refused_or_gets_one_of_the_range)
{
    need_root();
    const char *path = table("red nobody\n");
    cr_assert_eq(start((struct users_options){.table = path}), 0, "%s", err.text);
    cr_expect_eq(refusal("green"), E_PERMISSION_DENIED);
    cr_expect(strstr(err.text, "green has no user"), "%s", err.text);
    struct users_options both = {.table = path, .uids = "1900000000-1900000009"};
    cr_assert_eq(start(both), 0, "%s", err.text);
    cr_expect_str_eq(find("red")->name, "nobody");
    cr_expect_geq(find("green")->uid, 1900000000);
}

Test(users, one_user_for_all_is_said_to_keep_none_apart)
{
    need_root();
    cr_assert_eq(start((struct users_options){.user = "nobody"}), 0, "%s", err.text);
    cr_expect_eq(find("red"), find("blue"));
    cr_expect(strstr(users.lacks, "not kept from each other"), "%s", users.lacks);
}

Test(users, mistakes_are_named)
{
    need_root();
    static const char *const ranges[] = {"",    "5",  "5-9", "5000-4999", "5000-99999999999",
                                         "a-b", "0-5"};
    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++)
        cr_expect_eq(start((struct users_options){.uids = ranges[i]}), E_INVALID_ARGUMENT, "%s",
                     ranges[i]);
    cr_expect_eq(start((struct users_options){.user = "nobody", .uids = "5000-5009"}),
                 E_INVALID_ARGUMENT);
    cr_expect_eq(start((struct users_options){.user = "no-such-user-here"}), E_NOT_FOUND);
    cr_expect_eq(start((struct users_options){.table = table("red\n")}), E_INVALID_ARGUMENT);
    cr_expect(strstr(err.text, "line 1"), "%s", err.text);
    cr_expect_eq(start((struct users_options){.table = table("red a b\n")}), E_INVALID_ARGUMENT);
    cr_expect_eq(start((struct users_options){.table = tmpdir_path(&dir, "absent")}), E_NOT_FOUND);
}
