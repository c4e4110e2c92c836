#include "agent/supervisor/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "agent/supervisor/gpu_access.h"
#include "common/base/str.h"

enum { TEXT_BYTES = 16384, MOVE_ROUNDS_MAX = 64 };

#define V2_ROOT         "/sys/fs/cgroup"
#define V1_ROOT         "/sys/fs/cgroup/memory"
#define V1_PIDS_ROOT    "/sys/fs/cgroup/pids"
#define V1_DEVICES_ROOT "/sys/fs/cgroup/devices"

static bool read_text(const char *path, char ret[TEXT_BYTES])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t size = read(fd, ret, TEXT_BYTES - 1);
    close(fd);
    ret[size > 0 ? size : 0] = '\0';
    return size >= 0;
}

static bool read_file(const struct cgroup *cgroup, const char *name, char ret[TEXT_BYTES])
{
    char path[CGROUP_PATH_MAX];
    return !str_printf(path, sizeof(path), "%s/%s", cgroup->path, name) && read_text(path, ret);
}

static bool write_file(const char *folder, const char *name, const char *text)
{
    char path[CGROUP_PATH_MAX];
    if (str_printf(path, sizeof(path), "%s/%s", folder, name))
        return false;
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t written = write(fd, text, strlen(text));
    int problem = errno;
    close(fd);
    errno = problem;
    return written == (ssize_t)strlen(text);
}

/* This process's place in a hierarchy: "0::<path>" of version 2, "<n>:memory:<path>" of version 1;
 * "/" where /proc shows something outside of what is mounted here. */
static void find_own_cgroup(const char *controllers, char ret[CGROUP_PATH_MAX])
{
    char text[TEXT_BYTES];
    struct str rest, line, part;
    (void)str_copy(ret, CGROUP_PATH_MAX, "");
    if (!read_text("/proc/self/cgroup", text))
        return;
    rest = str_of(text);
    while (str_next(&rest, '\n', &line)) {
        struct str number;
        if (!str_next(&line, ':', &number) || !str_next(&line, ':', &part) ||
            !str_equal(part, str_of(controllers)))
            continue;
        if (line.size > 1 && line.size < CGROUP_PATH_MAX && !strstr(line.data, "/../"))
            (void)str_printf(ret, CGROUP_PATH_MAX, "%.*s", (int)line.size, line.data);
        return;
    }
}

static bool word_in(const char *text, const char *word)
{
    struct str rest = str_of(text), part;
    while (str_next(&rest, ' ', &part))
        if (str_equal(str_trim(part), str_of(word)))
            return true;
    return false;
}

const char *cgroup_kind_name(enum cgroup_kind kind)
{
    switch (kind) {
    case CGROUP_NONE:
        break;
    case CGROUP_V1:
        return "v1";
    case CGROUP_V2:
        return "v2";
    }
    return "none";
}

static bool set_reason(struct cgroup_home *home, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static bool set_reason(struct cgroup_home *home, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(home->why, sizeof(home->why), fmt, args);
    va_end(args);
    return false;
}

/* systemd marks what it has delegated with an extended attribute, by its version with one name or
 * the other. */
static bool delegated(const char *path)
{
    char value[2];
    return getxattr(path, "trusted.delegate", value, sizeof(value)) == 1 ||
           getxattr(path, "user.delegate", value, sizeof(value)) == 1;
}

/* Move all processes of `parent` itself to its child of that name. Processes that have not moved
 * may start new ones meanwhile. */
static bool move_processes(struct cgroup_home *home, const char *parent, const char *child_name)
{
    char child[CGROUP_PATH_MAX], text[TEXT_BYTES], pid[24], path[CGROUP_PATH_MAX];
    if (str_printf(child, sizeof(child), "%s/%s", parent, child_name) ||
        str_printf(path, sizeof(path), "%s/cgroup.procs", parent))
        return set_reason(home, "the path of %.150s is too long", parent);
    if (mkdir(child, 0755) && errno != EEXIST)
        return set_reason(home, "cannot make %.150s: %s", child, strerror(errno));
    for (int round = 0; round < MOVE_ROUNDS_MAX; round++) {
        struct str rest, line;
        if (!read_text(path, text))
            return set_reason(home, "cannot read %.150s: %s", path, strerror(errno));
        if (!text[0])
            return true;
        rest = str_of(text);
        while (str_next(&rest, '\n', &line)) {
            (void)str_printf(pid, sizeof(pid), "%.*s", (int)line.size, line.data);
            if (line.size > 0 && !write_file(child, "cgroup.procs", pid) && errno != ESRCH)
                return set_reason(home, "cannot move process %s to %.150s: %s", pid, child,
                                  strerror(errno));
        }
    }
    return set_reason(home, "processes appear in %.150s faster than they can be moved", parent);
}

static bool enable_memory(const char *parent)
{
    return write_file(parent, "cgroup.subtree_control", "+memory");
}

static bool refuse_errno(struct cgroup_home *home, const char *parent)
{
    return set_reason(home, "%.150s does not delegate its memory controller: %s", parent,
                      strerror(errno));
}

/* A cgroup delegated for this: by the shipped units, or by an administrator. */
static bool find_wished(struct cgroup_home *home, const char *wish)
{
    if (str_printf(home->path, sizeof(home->path), V2_ROOT "%s%s", wish[0] == '/' ? "" : "/", wish))
        return set_reason(home, "the path %.150s is too long", wish);
    if (access(home->path, F_OK))
        return set_reason(home, "there is no cgroup %.150s: does its unit run?", wish);
    if (!enable_memory(home->path) &&
        (!move_processes(home, home->path, "holder") || !enable_memory(home->path)))
        return home->why[0] ? false : refuse_errno(home, home->path);
    if (str_printf(home->shims, sizeof(home->shims), "%s/shims", home->path) ||
        (mkdir(home->shims, 0755) && errno != EEXIST))
        return set_reason(home, "cannot make %.150s/shims: %s", home->path, strerror(errno));
    return true;
}

/* Below where this process is. Processes of others are moved only where all that is there is ours:
 * in the root of a cgroup namespace (a container), and in a scope that was delegated. A service is
 * not: systemd before 254 could not start it again. */
static bool find_own(struct cgroup_home *home)
{
    char place[CGROUP_PATH_MAX];
    find_own_cgroup("", place);
    size_t size = strlen(place);
    if (str_ends(place, "/agent")) { /* DelegateSubgroup=agent, or an agent before us */
        place[size - strlen("/agent")] = '\0';
    } else if (strcmp(place, "/") == 0) {
        place[0] = '\0';
    }
    if (str_printf(home->path, sizeof(home->path), V2_ROOT "%s", place))
        return set_reason(home, "the path of %.150s is too long", place);
    if (enable_memory(home->path))
        return true;
    if (errno != EBUSY)
        return refuse_errno(home, home->path);
    if (place[0] && !(str_ends(place, ".scope") && delegated(home->path)))
        return set_reason(
            home,
            "other processes live in %.120s, which is not delegated: use the units of "
            "deploy/systemd, or systemd-run --scope -p Delegate=yes",
            place);
    return move_processes(home, home->path, "agent") &&
           (enable_memory(home->path) || refuse_errno(home, home->path));
}

static bool find_v2(struct cgroup_home *home, const char *wish)
{
    char controllers[TEXT_BYTES];
    if (!read_text(V2_ROOT "/cgroup.controllers", controllers) || !word_in(controllers, "memory"))
        return set_reason(home, "no cgroup hierarchy with a memory controller");
    return strcmp(wish, "auto") == 0 ? find_own(home) : find_wished(home, wish);
}

/* The cgroup of this process in a hierarchy of version 1. If the hierarchy is mounted below the
 * path in /proc, as in a container, its root. */
static bool find_in_v1(const char *controller, const char *root, char ret[CGROUP_PATH_MAX])
{
    char place[CGROUP_PATH_MAX];
    find_own_cgroup(controller, place);
    if (str_printf(ret, CGROUP_PATH_MAX, "%s%s", root, place))
        return false;
    if (access(ret, F_OK))
        (void)str_copy(ret, CGROUP_PATH_MAX, root);
    return true;
}

static bool find_v1(struct cgroup_home *home)
{
    return access(V1_ROOT "/memory.limit_in_bytes", F_OK) == 0 &&
           find_in_v1("memory", V1_ROOT, home->path);
}

static void find_pids(struct cgroup_home *home)
{
    home->pids[0] = '\0';
    if (home->kind == CGROUP_V2 && write_file(home->path, "cgroup.subtree_control", "+pids"))
        (void)str_copy(home->pids, sizeof(home->pids), home->path);
    if (home->kind == CGROUP_V1 && access(V1_PIDS_ROOT "/cgroup.procs", F_OK) == 0 &&
        !find_in_v1("pids", V1_PIDS_ROOT, home->pids))
        home->pids[0] = '\0';
}

static int allow_gpus(enum cgroup_kind kind, const char *path, const struct launch_gpus *gpus,
                      struct error *err)
{
    return kind == CGROUP_V2 ? gpu_access_attach(path, gpus, err)
                             : gpu_access_write(path, gpus, err);
}

/* A container may allow all of them by one rule, from which single ones cannot be excluded. */
static bool allows_by_wildcard(const char *folder)
{
    char path[CGROUP_PATH_MAX], text[TEXT_BYTES];
    return !str_printf(path, sizeof(path), "%s/devices.list", folder) && read_text(path, text) &&
           (strstr(text, ":* ") && !str_starts(text, "a *:* "));
}

/* Tried with a cgroup of its own: whether the kernel, a container or this process's rights allow
 * it is not to be known otherwise. */
static void find_devices(struct cgroup_home *home)
{
    static const struct launch_gpus none = {.major = 195};
    char probe[CGROUP_PATH_MAX];
    struct error err = {0};
    if (home->kind == CGROUP_V2)
        (void)str_copy(home->devices, sizeof(home->devices), home->path);
    else if (home->kind == CGROUP_NONE || access(V1_DEVICES_ROOT "/devices.deny", F_OK) ||
             !find_in_v1("devices", V1_DEVICES_ROOT, home->devices))
        (void)str_copy(home->devices_why, sizeof(home->devices_why),
                       home->kind == CGROUP_NONE ? home->why : "no devices controller");
    if (home->devices_why[0] || !home->devices[0])
        return;
    if (str_printf(probe, sizeof(probe), "%s/muster.probe.%d", home->devices, (int)getpid()) ||
        mkdir(probe, 0755))
        error_errno(&err, errno, "%.120s", home->devices);
    else if (allow_gpus(home->kind, probe, &none, &err) == 0 && home->kind == CGROUP_V1 &&
             allows_by_wildcard(probe))
        error_set(&err, E_FAILED_PRECONDITION, "%.120s allows devices by wildcards", home->devices);
    (void)rmdir(probe);
    if (!err.code)
        return;
    (void)str_copy(home->devices_why, sizeof(home->devices_why), err.text);
    home->devices[0] = '\0';
}

void cgroup_home_find(const char *wish, struct cgroup_home *ret)
{
    struct cgroup_home home = {.kind = CGROUP_NONE};
    if (strcmp(wish, "off") == 0)
        (void)set_reason(&home, "switched off by --cgroup off");
    else if (find_v2(&home, wish))
        home.kind = CGROUP_V2;
    else if (find_v1(&home))
        home.kind = CGROUP_V1;
    if (home.kind == CGROUP_NONE)
        home.path[0] = home.shims[0] = '\0';
    else
        home.why[0] = '\0';
    find_pids(&home);
    find_devices(&home);
    *ret = home;
}

static bool make_in(const char *home, const char *name, char ret[CGROUP_PATH_MAX],
                    struct cgroup *cgroup)
{
    if (str_printf(ret, CGROUP_PATH_MAX, "%s/muster.%s", home, name))
        return false;
    if (mkdir(ret, 0755) == 0)
        return true;
    /* Left by a shim that was killed; if a process is in it, it is not ours. */
    if (errno == EEXIST && rmdir(ret) == 0 && mkdir(ret, 0755) == 0)
        return true;
    (void)str_printf(cgroup->why, sizeof(cgroup->why), "cannot make %.150s: %s", ret,
                     strerror(errno));
    ret[0] = '\0';
    return false;
}

static void limit_processes(const struct cgroup_home *home, const char *name, uint32_t count,
                            struct cgroup *cgroup)
{
    char text[32];
    (void)str_printf(text, sizeof(text), "%" PRIu32, count);
    if (!home->pids[0] ||
        (cgroup->kind == CGROUP_V1 && !make_in(home->pids, name, cgroup->pids, cgroup)))
        return;
    const char *folder = cgroup->kind == CGROUP_V1 ? cgroup->pids : cgroup->path;
    if (!write_file(folder, "pids.max", text))
        (void)str_printf(cgroup->why, sizeof(cgroup->why), "no limit of processes in %.150s: %s",
                         folder, strerror(errno));
}

/* Before anything lives in it. */
static void limit_gpus(const struct cgroup_home *home, const char *name,
                       const struct launch_gpus *gpus, struct cgroup *cgroup)
{
    struct error err = {0};
    if (!home->devices[0] ||
        (cgroup->kind == CGROUP_V1 && !make_in(home->devices, name, cgroup->devices, cgroup)))
        return;
    if (cgroup_set_gpus(cgroup, gpus, &err))
        (void)str_printf(cgroup->why, sizeof(cgroup->why), "GPUs of others can be opened: %.200s",
                         err.text);
}

static void limit_memory(struct cgroup *cgroup, uint64_t memory_bytes)
{
    char text[32];
    (void)str_printf(text, sizeof(text), "%" PRIu64, memory_bytes);
    bool done = write_file(
        cgroup->path, cgroup->kind == CGROUP_V2 ? "memory.max" : "memory.limit_in_bytes", text);
    if (!done)
        (void)str_printf(cgroup->why, sizeof(cgroup->why), "no memory limit in %.150s: %s",
                         cgroup->path, strerror(errno));
    /* Swap would only delay the kill; where it is not accounted the files are missing. */
    if (cgroup->kind == CGROUP_V2)
        (void)write_file(cgroup->path, "memory.swap.max", "0");
    else
        (void)write_file(cgroup->path, "memory.memsw.limit_in_bytes", text);
}

void cgroup_create(const struct cgroup_home *home, const char *name,
                   const struct cgroup_limits *limits, struct cgroup *ret)
{
    *ret = (struct cgroup){.kind = CGROUP_NONE};
    (void)str_copy(ret->why, sizeof(ret->why), home->why);
    if (home->kind == CGROUP_NONE)
        return;
    if (!make_in(home->path, name, ret->path, ret))
        return;
    ret->kind = home->kind;
    if (limits->memory_bytes > 0)
        limit_memory(ret, limits->memory_bytes);
    if (limits->processes > 0)
        limit_processes(home, name, limits->processes, ret);
    if (limits->gpus.major)
        limit_gpus(home, name, &limits->gpus, ret);
}

void cgroup_open(const char *path, const char *pids, const char *devices, struct cgroup *ret)
{
    char text[TEXT_BYTES];
    *ret = (struct cgroup){.kind = CGROUP_NONE};
    (void)str_copy(ret->pids, sizeof(ret->pids), pids);
    (void)str_copy(ret->devices, sizeof(ret->devices), devices);
    if (!path[0] || str_copy(ret->path, sizeof(ret->path), path) ||
        !read_file(ret, "cgroup.procs", text)) {
        ret->path[0] = '\0';
        return;
    }
    ret->kind = read_file(ret, "memory.oom_control", text) ? CGROUP_V1 : CGROUP_V2;
}

static void path_in(const char *home, const char *name, char ret[CGROUP_PATH_MAX])
{
    if (!home[0] || str_printf(ret, CGROUP_PATH_MAX, "%s/muster.%s", home, name))
        ret[0] = '\0';
}

void cgroup_open_named(const struct cgroup_home *home, const char *name, struct cgroup *ret)
{
    char path[CGROUP_PATH_MAX], pids[CGROUP_PATH_MAX] = "", devices[CGROUP_PATH_MAX] = "";
    path_in(home->path, name, path);
    if (home->kind == CGROUP_V1) {
        path_in(home->pids, name, pids);
        path_in(home->devices, name, devices);
    }
    cgroup_open(path, pids, devices, ret);
}

static int open_procs(const char *folder)
{
    char path[CGROUP_PATH_MAX];
    if (!folder[0] || str_printf(path, sizeof(path), "%s/cgroup.procs", folder))
        return -1;
    return open(path, O_WRONLY | O_CLOEXEC);
}

int cgroup_home_shims_fd(const struct cgroup_home *home)
{
    return open_procs(home->shims);
}

int cgroup_set_gpus(const struct cgroup *cgroup, const struct launch_gpus *gpus, struct error *err)
{
    const char *folder = cgroup->kind == CGROUP_V2 ? cgroup->path : cgroup->devices;
    return folder[0] ? allow_gpus(cgroup->kind, folder, gpus, err) : 0;
}

void cgroup_enter_fds(const struct cgroup *cgroup, int ret[PROC_CGROUPS_MAX])
{
    ret[0] = open_procs(cgroup->kind == CGROUP_NONE ? "" : cgroup->path);
    ret[1] = open_procs(cgroup->pids);
    ret[2] = open_procs(cgroup->devices);
}

void cgroup_close_fds(const int fds[PROC_CGROUPS_MAX])
{
    for (int i = 0; i < PROC_CGROUPS_MAX; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

/* A process that has left the first, or is not in it yet, is still in the other. */
static bool read_processes(const struct cgroup *cgroup, char ret[TEXT_BYTES])
{
    char path[CGROUP_PATH_MAX];
    if (cgroup->kind != CGROUP_NONE && read_file(cgroup, "cgroup.procs", ret) && ret[0])
        return true;
    return cgroup->pids[0] && !str_printf(path, sizeof(path), "%s/cgroup.procs", cgroup->pids) &&
           read_text(path, ret);
}

int cgroup_list(const struct cgroup *cgroup, pid_t *ret, int max)
{
    char text[TEXT_BYTES];
    struct str rest, line;
    int count = 0;
    if (!read_processes(cgroup, text))
        return 0;
    rest = str_of(text);
    while (str_next(&rest, '\n', &line) && count < CGROUP_PROCS_MAX) {
        pid_t pid = (pid_t)strtol(line.data, NULL, 10);
        if (pid <= 1)
            continue;
        if (count < max)
            ret[count] = pid;
        count++;
    }
    return count;
}

int cgroup_kill(const struct cgroup *cgroup, pid_t *ret, int max)
{
    pid_t pids[CGROUP_PROCS_MAX];
    int count = cgroup_list(cgroup, pids, CGROUP_PROCS_MAX);
    for (int i = 0; i < count; i++) {
        kill(pids[i], SIGKILL);
        if (i < max)
            ret[i] = pids[i];
    }
    return count;
}

uint64_t cgroup_oom_kills(const struct cgroup *cgroup)
{
    char text[TEXT_BYTES];
    struct str rest, line;
    if (cgroup->kind == CGROUP_NONE ||
        !read_file(cgroup, cgroup->kind == CGROUP_V2 ? "memory.events" : "memory.oom_control",
                   text))
        return 0;
    rest = str_of(text);
    while (str_next(&rest, '\n', &line))
        if (line.size > 9 && strncmp(line.data, "oom_kill ", 9) == 0)
            return strtoull(line.data + 9, NULL, 10);
    return 0;
}

uint64_t cgroup_peak_bytes(const struct cgroup *cgroup)
{
    char text[TEXT_BYTES];
    if (cgroup->kind == CGROUP_NONE ||
        !read_file(cgroup, cgroup->kind == CGROUP_V2 ? "memory.peak" : "memory.max_usage_in_bytes",
                   text))
        return 0;
    return strtoull(text, NULL, 10);
}

static bool remove_folder(const char *path)
{
    return !path[0] || rmdir(path) == 0 || errno == ENOENT;
}

bool cgroup_remove(const struct cgroup *cgroup)
{
    bool gone = remove_folder(cgroup->kind == CGROUP_NONE ? "" : cgroup->path);
    gone = remove_folder(cgroup->pids) && gone;
    return remove_folder(cgroup->devices) && gone;
}
