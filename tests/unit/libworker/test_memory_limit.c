/* Limits of control groups, read from folders that look like a machine's. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "libworker/tensor/memory_limit.h"
#include "tests/lib/tmpdir.h"

static struct tmpdir root;

static void begin(void)
{
    root = tmpdir_make();
}

static void end(void)
{
    tmpdir_remove(&root);
}

TestSuite(memory_limit, .init = begin, .fini = end);

/* A file below the root, with the folders on its way. */
static void put(const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", root.path, name);
    for (char *c = path + strlen(root.path) + 1; *c; c++)
        if (*c == '/') {
            *c = 0;
            (void)mkdir(path, 0700);
            *c = '/';
        }
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file, "%s", path);
    fputs(text, file);
    fclose(file);
}

static struct memory_limit limits(void)
{
    struct memory_limit limit;
    memory_limit_read(root.path, &limit);
    return limit;
}

Test(memory_limit, nothing_that_can_be_read_is_no_limit)
{
    struct memory_limit limit = limits();
    cr_expect(limit.own == MEMORY_UNLIMITED && limit.above == MEMORY_UNLIMITED && !*limit.group);
    cr_expect_eq(memory_data_bytes(root.path), -1);
}

Test(memory_limit, a_machine_without_groups_has_what_is_available)
{
    put("proc/meminfo", "MemTotal:  8000 kB\nMemFree:  100 kB\nMemAvailable:    3000 kB\n");
    struct memory_limit limit = limits();
    cr_expect(limit.own == MEMORY_UNLIMITED && !*limit.group);
    cr_expect_eq(limit.above, 3000 * 1024);
    put("proc/meminfo", "MemTotal:  8000 kB\n");
    cr_expect_eq(limits().above, MEMORY_UNLIMITED);
}

static void put_v2(const char *own, const char *middle)
{
    put("proc/self/cgroup", "0::/a/job/w0\n");
    put("sys/fs/cgroup/a/job/w0/memory.max", own);
    put("sys/fs/cgroup/a/job/w0/memory.current", "400000\n");
    put("sys/fs/cgroup/a/job/w0/memory.stat",
        "anon 300000\nfile 100000\ninactive_file 60000\nactive_file 30000\n");
    put("sys/fs/cgroup/a/job/memory.max", middle);
    put("sys/fs/cgroup/a/job/memory.current", "500000\n");
    put("sys/fs/cgroup/a/memory.max", "max\n");
    put("sys/fs/cgroup/a/memory.current", "900000\n");
}

Test(memory_limit, version_2_counts_every_group_above)
{
    put_v2("1000000\n", "max\n");
    struct memory_limit limit = limits();
    cr_expect_eq(limit.own, 1000000 - (400000 - 90000));
    cr_expect_eq(limit.above, MEMORY_UNLIMITED);
    cr_expect(strstr(limit.group, "/sys/fs/cgroup/a/job/w0"), "%s", limit.group);
    put_v2("max\n", "600000\n");
    limit = limits();
    cr_expect_eq(limit.own, MEMORY_UNLIMITED);
    cr_expect_eq(limit.above, 100000);
    put_v2("300000\n", "2000000\n");
    limit = limits();
    cr_expect_eq(limit.own, 0, "what is above its limit has nothing left");
    cr_expect_eq(limit.above, 1500000);
}

Test(memory_limit, version_1_beside_an_empty_version_2)
{
    put("proc/self/cgroup", "9:name=systemd:/\n5:cpu,memory:/w\n0::/\n");
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("sys/fs/cgroup/memory/memory.usage_in_bytes", "1\n");
    put("sys/fs/cgroup/memory/w/memory.limit_in_bytes", "1000000\n");
    put("sys/fs/cgroup/memory/w/memory.usage_in_bytes", "700000\n");
    put("sys/fs/cgroup/memory/w/memory.stat", "inactive_file 1\ntotal_inactive_file 200000\n");
    struct memory_limit limit = limits();
    cr_expect_eq(limit.own, 500000);
    cr_expect_eq(limit.above, MEMORY_UNLIMITED);
}

Test(memory_limit, a_container_sees_its_own_group_as_the_top)
{
    put("proc/self/cgroup", "0::/../../kubepods/pod1/c1\n");
    put("sys/fs/cgroup/memory.max", "1000000\n");
    put("sys/fs/cgroup/memory.current", "250000\n");
    cr_expect_eq(limits().own, 750000);
}

Test(memory_limit, the_data_of_a_process)
{
    put("proc/self/status", "Name:\tx\nVmPeak:\t  99 kB\nVmData:\t   1200 kB\nVmStk:\t 132 kB\n");
    cr_expect_eq(memory_data_bytes(root.path), 1200 * 1024);
    cr_expect_gt(memory_data_bytes(""), 0, "this machine's own");
}
