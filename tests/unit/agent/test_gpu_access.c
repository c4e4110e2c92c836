#include <criterion/criterion.h>

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/supervisor/gpu_access.h"
#include "common/base/str.h"
#include "tests/lib/tmpdir.h"
#include "tests/unit/agent/supervisor_rig.h"

enum { MAJOR = 195, OUTSIDER = 65534 };

/* What the kernel does with such a program, for the operations that it uses; -1 = any other. */
static int interpret(const struct bpf_insn *program, int count, struct bpf_cgroup_dev_ctx context)
{
    uint64_t registers[11] = {0};
    for (int at = 0, steps = 0; at >= 0 && at < count && steps < 1000; at++, steps++) {
        const struct bpf_insn *i = &program[at];
        uint64_t *to = &registers[i->dst_reg];
        uint32_t number = (uint32_t)i->imm;
        switch (i->code) {
        case BPF_LDX | BPF_MEM | BPF_W:
            if (i->src_reg != BPF_REG_1 || i->off < 0 || i->off > 8)
                return -1;
            memcpy(&number, (const char *)&context + i->off, sizeof(number));
            *to = number;
            break;
        case BPF_ALU | BPF_AND | BPF_K:
            *to = (uint32_t)*to & number;
            break;
        case BPF_ALU64 | BPF_MOV | BPF_K:
            *to = number;
            break;
        case BPF_JMP | BPF_JNE | BPF_K:
            at += *to != number ? i->off : 0;
            break;
        case BPF_JMP | BPF_JEQ | BPF_K:
            at += *to == number ? i->off : 0;
            break;
        case BPF_JMP | BPF_JGE | BPF_K:
            at += *to >= number ? i->off : 0;
            break;
        case BPF_JMP | BPF_EXIT:
            return (int)registers[BPF_REG_0];
        default:
            return -1;
        }
    }
    return -1;
}

Test(gpu_access, the_program_allows_what_the_rule_allows)
{
    struct launch_gpus sets[4] = {{.major = MAJOR},
                                  {.major = MAJOR, .count = 2, .minors = {0, 7}},
                                  {.major = 511, .count = 1, .minors = {253}},
                                  {.major = MAJOR, .count = AGENT_GPUS_MAX}};
    static const uint32_t majors[] = {0, 1, MAJOR, 196, 511, 0xfff};
    for (int i = 0; i < AGENT_GPUS_MAX; i++)
        sets[3].minors[i] = (uint32_t)(2 * i);
    for (size_t s = 0; s < sizeof(sets) / sizeof(sets[0]); s++) {
        struct bpf_insn program[GPU_PROGRAM_MAX];
        int count = gpu_access_program(&sets[s], program);
        cr_assert_leq(count, GPU_PROGRAM_MAX);
        for (size_t m = 0; m < sizeof(majors) / sizeof(majors[0]); m++)
            for (uint32_t minor = 0; minor < 300; minor++) {
                uint32_t access = BPF_DEVCG_ACC_READ | BPF_DEVCG_ACC_WRITE;
                struct bpf_cgroup_dev_ctx file = {access << 16 | BPF_DEVCG_DEV_CHAR, majors[m],
                                                  minor};
                int expected = gpu_access_allows(&sets[s], majors[m], minor);
                cr_assert_eq(interpret(program, count, file), expected, "%zu: %u:%u", s, majors[m],
                             minor);
                file.access_type = access << 16 | BPF_DEVCG_DEV_BLOCK;
                cr_assert_eq(interpret(program, count, file), 1, "disks have numbers of their own");
            }
    }
}

Test(gpu_access, the_rule_is_own_gpus_and_what_all_share)
{
    struct launch_gpus gpus = {.major = MAJOR, .count = 2, .minors = {1, 3}}, unknown = {0};
    cr_expect(gpu_access_allows(&gpus, MAJOR, 1) && gpu_access_allows(&gpus, MAJOR, 3));
    cr_expect(!gpu_access_allows(&gpus, MAJOR, 0) && !gpu_access_allows(&gpus, MAJOR, 253));
    cr_expect(gpu_access_allows(&gpus, MAJOR, 254) && gpu_access_allows(&gpus, MAJOR, 255));
    cr_expect(gpu_access_allows(&gpus, 1, 0) && gpu_access_allows(&unknown, MAJOR, 0));
}

Test(gpu_access, sets_are_joined_in_order)
{
    struct launch_gpus set = {.major = MAJOR, .count = 1, .minors = {4}};
    const struct launch_gpus more = {.major = MAJOR, .count = 3, .minors = {2, 4, 9}};
    const struct launch_gpus all = {.major = MAJOR, .count = 3, .minors = {2, 4, 9}};
    launch_gpus_join(&set, &more);
    cr_expect_eq(memcmp(&set, &all, sizeof(all)), 0);
    launch_gpus_join(&set, &(struct launch_gpus){0});
    cr_expect_eq(set.major, 0, "one that nobody knows of");
}

/* The kernel's own word */

static void make_node(struct tmpdir *dir, const char *name, unsigned minor)
{
    cr_assert_eq(mknod(tmpdir_path(dir, name), S_IFCHR | 0666, makedev(MAJOR, minor)), 0);
    cr_assert_eq(chmod(tmpdir_path(dir, name), 0666), 0);
}

/* errno of an open; no driver of that number is the same as an open: it came to the driver. */
static int open_in(const char *procs, const char *path)
{
    pid_t pid = fork();
    int status;
    if (pid == 0) {
        int group = open(procs, O_WRONLY), fd;
        if (group < 0 || write(group, "0", 1) != 1)
            _exit(255);
        fd = open(path, O_RDWR);
        _exit(fd >= 0 || errno == ENXIO || errno == ENODEV ? 0 : errno);
    }
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void expect_rule(const char *group, bool unified)
{
    int (*set)(const char *, const struct launch_gpus *, struct error *) =
        unified ? gpu_access_attach : gpu_access_write;
    static const struct launch_gpus steps[] = {
        {MAJOR, 1, {0}}, {MAJOR, 2, {0, 1}}, {MAJOR, 1, {1}}, {MAJOR, 0, {0}}};
    struct tmpdir dir = tmpdir_make();
    struct error err = {0};
    char procs[256];
    (void)str_printf(procs, sizeof(procs), "%s/cgroup.procs", group);
    make_node(&dir, "gpu0", 0);
    make_node(&dir, "gpu1", 1);
    make_node(&dir, "ctl", 255);
    cr_expect_eq(open_in(procs, tmpdir_path(&dir, "gpu1")), 0, "before there is a rule");
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        cr_assert_eq(set(group, &steps[i], &err), 0, "%s", err.text);
        for (uint32_t minor = 0; minor < 2; minor++) {
            bool own = gpu_access_allows(&steps[i], MAJOR, minor);
            int seen = open_in(procs, tmpdir_path(&dir, minor ? "gpu1" : "gpu0"));
            cr_expect_eq(seen, own ? 0 : EPERM, "step %zu, gpu%u: %d", i, minor, seen);
        }
        cr_expect_eq(open_in(procs, tmpdir_path(&dir, "ctl")), 0);
        cr_expect_eq(open_in(procs, "/dev/null"), 0);
    }
    tmpdir_remove(&dir);
}

static void in_group_of(const char *root, bool unified)
{
    char group[128];
    (void)str_printf(group, sizeof(group), "%s/muster.test.%d", root, (int)getpid());
    if (geteuid() != 0 || mkdir(group, 0755))
        cr_skip_test("no cgroup of one's own in %s", root);
    expect_rule(group, unified);
    cr_expect_eq(rmdir(group), 0);
}

Test(gpu_access, version_1_denies_gpus_of_others)
{
    if (access("/sys/fs/cgroup/devices/devices.deny", W_OK))
        cr_skip_test("no devices controller");
    in_group_of("/sys/fs/cgroup/devices", false);
}

Test(gpu_access, version_2_denies_gpus_of_others)
{
    static const char *const roots[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
    for (size_t i = 0; i < sizeof(roots) / sizeof(roots[0]); i++) {
        char path[64];
        (void)str_printf(path, sizeof(path), "%s/cgroup.controllers", roots[i]);
        if (access(path, R_OK) == 0) {
            in_group_of(roots[i], true);
            return;
        }
    }
    cr_skip_test("no cgroup hierarchy of version 2");
}

/* Workers */

/* A /dev of this test's own with three GPUs; of root's, in mounts that end with the test. */
static void private_dev(void)
{
    static const struct {
        const char *name;
        unsigned major, minor;
    } nodes[] = {{"null", 1, 3},           {"zero", 1, 5},        {"urandom", 1, 9},
                 {"nvidia0", MAJOR, 0},    {"nvidia1", MAJOR, 1}, {"nvidia2", MAJOR, 2},
                 {"nvidiactl", MAJOR, 255}};
    char folder[] = "/tmp/muster-dev-XXXXXX", path[80];
    umask(0);
    if (geteuid() != 0 || unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
        cr_skip_test("no mounts of one's own: %s", strerror(errno));
    cr_assert_not_null(mkdtemp(folder));
    cr_assert_eq(mount("muster", folder, "tmpfs", 0, "mode=755"), 0);
    for (size_t i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++) {
        (void)str_printf(path, sizeof(path), "%s/%s", folder, nodes[i].name);
        cr_assert_eq(mknod(path, S_IFCHR | 0666, makedev(nodes[i].major, nodes[i].minor)), 0);
    }
    (void)str_printf(path, sizeof(path), "%s/shm", folder);
    cr_assert_eq(mkdir(path, 01777), 0);
    cr_assert_eq(mount(folder, "/dev", NULL, MS_MOVE, NULL), 0, "%s", strerror(errno));
    cr_assert_eq(rmdir(folder), 0);
}

static struct rig rig;

static void fini(void)
{
    rig_fini(&rig);
}

/* Prints "<round> <gpus that it can open> ctl" whenever its folder has a new file "go". */
static const char watcher[] =
    "round=0; while :; do round=$((round + 1)); said=$round\n"
    "for n in 0 1 2 ctl; do (: < /dev/nvidia$n) 2>&1 | grep -q -e 'not permitted' -e denied"
    " || said=\"$said $n\"; done\n"
    "echo \"$said.\"; while ! rm \"$GO\" 2>/dev/null; do sleep 0.02; done; done";

static void start_watcher(uint64_t uid, const char *job, uint32_t gpu)
{
    struct error err = {0};
    char go[96];
    (void)str_printf(go, sizeof(go), "GO=%s/work/%s.%d/go", rig.dir, job, (int)uid);
    const char *const argv[] = {"/bin/sh", "-c", watcher, NULL};
    const char *const envp[] = {rig_environment[0], go, NULL};
    struct launch launch = {
        .key = {.uid = uid}, .argv = argv, .envp = envp, .workdir = "", .gpus = {MAJOR, 1, {gpu}}};
    (void)str_copy(launch.key.job, sizeof(launch.key.job), job);
    (void)str_copy(rig_worker(&rig, uid)->key.job, sizeof(launch.key.job), job);
    cr_assert_eq(rig_launch(&rig, &launch, &err), 0, "%s", err.text);
}

static void look_again(uint64_t uid, const char *job)
{
    char path[96];
    (void)str_printf(path, sizeof(path), "%s/work/%s.%d/go", rig.dir, job, (int)uid);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    cr_assert_geq(fd, 0);
    close(fd);
}

static void expect_says(uint64_t uid, const char *text)
{
    if (rig_output_has(&rig, uid, text))
        return;
    char *output = rig_output(&rig, uid);
    cr_expect_fail("worker %d does not say %s: %s", (int)uid, text, output);
    free(output);
}

static void expect_rounds(bool mounts, bool cgroups)
{
    private_dev();
    rig_init(&rig);
    rig_as_user(&rig, OUTSIDER, OUTSIDER);
    if (mounts)
        namespaces_find(rig.dir, &rig.namespaces); /* whose folder is in /tmp */
    if (mounts && !rig.namespaces.devices)
        cr_skip_test("no mounts for workers");
    if (!cgroups)
        cgroup_home_find("off", &rig.home);
    if (cgroups && !rig.home.devices[0])
        cr_skip_test("%s", rig.home.devices_why);
    rig_restart(&rig);
    start_watcher(1, "red", 0);
    start_watcher(2, "blue", 1);
    expect_says(1, "1 0 ctl.");
    expect_says(2, "1 1 ctl.");
    /* A gang that grows: NCCL copies from one of its GPUs to the other. */
    start_watcher(3, "red", 2);
    expect_says(3, "1 0 2 ctl.");
    look_again(1, "red");
    expect_says(1, "2 0 2 ctl.");
    /* An agent that was started again gives the GPU back when the gang shrinks. */
    rig_restart(&rig);
    rig.launcher.kill(rig.launcher.self, &rig_worker(&rig, 3)->key);
    cr_assert(rig_until(&rig, &rig_worker(&rig, 3)->ended));
    look_again(1, "red");
    expect_says(1, "3 0 ctl.");
    look_again(2, "blue");
    expect_says(2, "2 1 ctl.");
    cr_expect_eq(open("/dev/nvidia0", O_RDWR | O_CLOEXEC), -1);
    cr_expect_eq(errno, ENXIO, "the machine's own is as it was");
}

Test(gpu_access, jobs_open_their_own_gpus_by_mounts, .fini = fini)
{
    expect_rounds(true, false);
}

Test(gpu_access, jobs_open_their_own_gpus_by_cgroups, .fini = fini)
{
    expect_rounds(false, true);
}

Test(gpu_access, jobs_open_their_own_gpus_by_both, .fini = fini)
{
    expect_rounds(true, true);
}
