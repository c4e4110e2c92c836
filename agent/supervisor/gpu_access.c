#include "agent/supervisor/gpu_access.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/base/str.h"

enum { PATH_BYTES = 640, PROGRAMS_MAX = 64 };

bool gpu_access_allows(const struct launch_gpus *gpus, uint32_t major, uint32_t minor)
{
    if (!gpus->major || major != gpus->major || minor >= GPU_SHARED_FIRST)
        return true;
    for (int i = 0; i < gpus->count; i++)
        if (gpus->minors[i] == minor)
            return true;
    return false;
}

/* The program */

static const uint8_t word_from_context = BPF_LDX | BPF_MEM | BPF_W;

static struct bpf_insn bpf_load(size_t offset)
{
    return (struct bpf_insn){.code = word_from_context,
                             .dst_reg = BPF_REG_2,
                             .src_reg = BPF_REG_1,
                             .off = (int16_t)offset};
}

static struct bpf_insn bpf_jump(uint8_t condition, uint32_t number)
{
    return (struct bpf_insn){
        .code = BPF_JMP | condition | BPF_K, .dst_reg = BPF_REG_2, .imm = (int32_t)number};
}

/* A jump's distance counts from the instruction after it; all of them go to `allow`. */
int gpu_access_program(const struct launch_gpus *gpus, struct bpf_insn ret[GPU_PROGRAM_MAX])
{
    int count = 0;
    ret[count++] = bpf_load(offsetof(struct bpf_cgroup_dev_ctx, access_type));
    ret[count++] =
        (struct bpf_insn){.code = BPF_ALU | BPF_AND | BPF_K, .dst_reg = BPF_REG_2, .imm = 0xffff};
    ret[count++] = bpf_jump(BPF_JNE, BPF_DEVCG_DEV_CHAR);
    ret[count++] = bpf_load(offsetof(struct bpf_cgroup_dev_ctx, major));
    ret[count++] = bpf_jump(BPF_JNE, gpus->major);
    ret[count++] = bpf_load(offsetof(struct bpf_cgroup_dev_ctx, minor));
    ret[count++] = bpf_jump(BPF_JGE, GPU_SHARED_FIRST);
    for (int i = 0; i < gpus->count; i++)
        ret[count++] = bpf_jump(BPF_JEQ, gpus->minors[i]);
    ret[count++] = (struct bpf_insn){.code = BPF_ALU64 | BPF_MOV | BPF_K, .imm = 0};
    ret[count++] = (struct bpf_insn){.code = BPF_JMP | BPF_EXIT};
    int allow = count;
    ret[count++] = (struct bpf_insn){.code = BPF_ALU64 | BPF_MOV | BPF_K, .imm = 1};
    ret[count++] = (struct bpf_insn){.code = BPF_JMP | BPF_EXIT};
    for (int at = 0; at < allow; at++)
        if (BPF_CLASS(ret[at].code) == BPF_JMP && BPF_OP(ret[at].code) != BPF_EXIT)
            ret[at].off = (int16_t)(allow - at - 1);
    return count;
}

static int bpf(enum bpf_cmd command, union bpf_attr *attr)
{
    return (int)syscall(SYS_bpf, command, attr, sizeof(*attr));
}

static int program_load(const struct launch_gpus *gpus)
{
    struct bpf_insn instructions[GPU_PROGRAM_MAX];
    union bpf_attr attr;
    memset(&attr, 0, sizeof(attr)); /* the kernel refuses padding that is not zero */
    attr.prog_type = BPF_PROG_TYPE_CGROUP_DEVICE;
    attr.insn_cnt = (uint32_t)gpu_access_program(gpus, instructions);
    attr.insns = (uint64_t)(uintptr_t)instructions;
    attr.license = (uint64_t)(uintptr_t) "Apache-2.0";
    (void)memcpy(attr.prog_name, "muster_gpus", sizeof("muster_gpus"));
    return bpf(BPF_PROG_LOAD, &attr);
}

static int program_attach(int cgroup_fd, int program_fd)
{
    union bpf_attr attr;
    memset(&attr, 0, sizeof(attr));
    attr.target_fd = (uint32_t)cgroup_fd;
    attr.attach_bpf_fd = (uint32_t)program_fd;
    attr.attach_type = BPF_CGROUP_DEVICE;
    attr.attach_flags = BPF_F_ALLOW_MULTI; /* beside those of cgroups above: all must allow */
    return bpf(BPF_PROG_ATTACH, &attr);
}

static int programs_list(int cgroup_fd, uint32_t ret[PROGRAMS_MAX])
{
    union bpf_attr attr;
    memset(&attr, 0, sizeof(attr));
    attr.query.target_fd = (uint32_t)cgroup_fd;
    attr.query.attach_type = BPF_CGROUP_DEVICE;
    attr.query.prog_ids = (uint64_t)(uintptr_t)ret;
    attr.query.prog_cnt = PROGRAMS_MAX;
    return bpf(BPF_PROG_QUERY, &attr) < 0 ? -1 : (int)attr.query.prog_cnt;
}

static int program_detach(int cgroup_fd, uint32_t id)
{
    union bpf_attr attr;
    memset(&attr, 0, sizeof(attr));
    attr.prog_id = id;
    int fd = bpf(BPF_PROG_GET_FD_BY_ID, &attr);
    if (fd < 0)
        return -1;
    memset(&attr, 0, sizeof(attr));
    attr.target_fd = (uint32_t)cgroup_fd;
    attr.attach_bpf_fd = (uint32_t)fd;
    attr.attach_type = BPF_CGROUP_DEVICE;
    int rc = bpf(BPF_PROG_DETACH, &attr);
    close(fd);
    return rc;
}

/* The new one first: while both are there, both must allow. The cgroup keeps it. */
static int program_replace(int cgroup_fd, const struct launch_gpus *gpus)
{
    uint32_t old[PROGRAMS_MAX];
    int count = programs_list(cgroup_fd, old);
    int program_fd = count < 0 ? -1 : program_load(gpus);
    if (program_fd < 0)
        return -1;
    int rc = program_attach(cgroup_fd, program_fd);
    for (int i = 0; i < count && !rc; i++)
        rc = program_detach(cgroup_fd, old[i]);
    int problem = errno;
    close(program_fd);
    errno = problem;
    return rc;
}

int gpu_access_attach(const char *cgroup, const struct launch_gpus *gpus, struct error *err)
{
    if (!gpus->major)
        return 0;
    int fd = open(cgroup, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return error_errno(err, errno, "%s", cgroup);
    int rc = program_replace(fd, gpus);
    int problem = errno;
    close(fd);
    if (rc)
        return error_errno(err, problem, "BPF program for %s", cgroup);
    return 0;
}

/* Version 1 denies by a list of numbers, so each of them is listed. Denials are first. */
int gpu_access_write(const char *cgroup, const struct launch_gpus *gpus, struct error *err)
{
    char path[PATH_BYTES], line[32];
    for (int allowed = 0; gpus->major && allowed < 2; allowed++) {
        if (str_printf(path, sizeof(path), "%s/devices.%s", cgroup, allowed ? "allow" : "deny"))
            return error_set(err, E_OUT_OF_RANGE, "path is too long: %s", cgroup);
        int fd = open(path, O_WRONLY | O_CLOEXEC);
        if (fd < 0)
            return error_errno(err, errno, "%s", path);
        for (uint32_t minor = 0; minor < GPU_SHARED_FIRST; minor++) {
            if (gpu_access_allows(gpus, gpus->major, minor) != (allowed != 0))
                continue;
            (void)str_printf(line, sizeof(line), "c %u:%u rwm", gpus->major, minor);
            /* A container without a GPU cannot allow it. */
            if (write(fd, line, strlen(line)) < 0 && !(allowed && errno == EPERM)) {
                int problem = errno;
                close(fd);
                return error_errno(err, problem, "%s", path);
            }
        }
        close(fd);
    }
    return 0;
}

/* Nodes and mounts */

static bool names_a_gpu(const char *name)
{
    size_t at = strlen("nvidia");
    if (!str_starts(name, "nvidia") || !name[at])
        return false;
    while (isdigit((unsigned char)name[at]))
        at++;
    return !name[at];
}

void gpu_access_nodes(const struct launch_gpus *gpus, bool allowed, struct gpu_nodes *ret)
{
    struct gpu_nodes nodes = {0};
    struct dirent *entry;
    DIR *dev = gpus->major ? opendir("/dev") : NULL;
    while (dev && nodes.count < GPU_NODES_MAX && (entry = readdir(dev))) {
        char *path = nodes.paths[nodes.count];
        struct stat status;
        if (names_a_gpu(entry->d_name) &&
            !str_printf(path, GPU_NODE_BYTES, "/dev/%s", entry->d_name) &&
            stat(path, &status) == 0 && S_ISCHR(status.st_mode) &&
            major(status.st_rdev) == gpus->major &&
            gpu_access_allows(gpus, gpus->major, minor(status.st_rdev)) == allowed)
            nodes.count++;
    }
    if (dev)
        closedir(dev);
    *ret = nodes;
}

static bool is_covered(const char *path)
{
    struct statvfs about;
    return statvfs(path, &about) == 0 && (about.f_flag & ST_NODEV);
}

int gpu_node_cover(const char *path)
{
    if (mount(path, path, NULL, MS_BIND, NULL) < 0 ||
        mount(NULL, path, NULL, MS_REMOUNT | MS_BIND | MS_NODEV | MS_NOSUID | MS_NOEXEC, NULL) < 0)
        return errno;
    return 0;
}

int gpu_nodes_cover(const struct gpu_nodes *nodes)
{
    int problem = 0;
    for (int i = 0; i < nodes->count && !problem; i++)
        if (!is_covered(nodes->paths[i]))
            problem = gpu_node_cover(nodes->paths[i]);
    return problem;
}

int gpu_nodes_uncover(const struct gpu_nodes *nodes)
{
    for (int i = 0; i < nodes->count; i++)
        if (is_covered(nodes->paths[i]) && umount2(nodes->paths[i], MNT_DETACH) < 0 &&
            errno != EINVAL) /* no mount of ours: all of /dev is nodev */
            return errno;
    return 0;
}
