#include "agent/supervisor/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/str.h"

enum { TEXT_BYTES = 16384 };

#define V2_ROOT "/sys/fs/cgroup"
#define V1_ROOT "/sys/fs/cgroup/memory"

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
    return str_printf(path, sizeof(path), "%s/%s", cgroup->path, name) == 0 && read_text(path, ret);
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
static void own_place(const char *controllers, char ret[CGROUP_PATH_MAX])
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

static bool make_in(struct cgroup *cgroup, const char *parent, const char *name)
{
    if (str_printf(cgroup->path, sizeof(cgroup->path), "%s/muster.%s", parent, name))
        return false;
    if (mkdir(cgroup->path, 0755) == 0)
        return true;
    /* Left by a shim that was killed; if somebody lives in it, it is not ours to use. */
    if (errno == EEXIST && rmdir(cgroup->path) == 0 && mkdir(cgroup->path, 0755) == 0)
        return true;
    (void)str_printf(cgroup->why, sizeof(cgroup->why), "cannot make %.150s: %s", cgroup->path,
                     strerror(errno));
    return false;
}

/* A cgroup that has processes of its own may not hand controllers to children ("no internal
 * processes"): then its parent may, if it was delegated to us (systemd's DelegateSubgroup=agent
 * puts the agent one level below what it may use). */
static bool create_v2(struct cgroup *cgroup, const char *name)
{
    char controllers[TEXT_BYTES], place[CGROUP_PATH_MAX], parent[CGROUP_PATH_MAX];
    if (!read_text(V2_ROOT "/cgroup.controllers", controllers) || !word_in(controllers, "memory"))
        return false;
    own_place("", place);
    if (str_ends(place, "/agent"))
        place[strlen(place) - strlen("/agent")] = '\0';
    if (str_printf(parent, sizeof(parent), V2_ROOT "%s", place))
        return false;
    if (!write_file(parent, "cgroup.subtree_control", "+memory")) {
        (void)str_printf(cgroup->why, sizeof(cgroup->why),
                         "%.150s does not give its memory controller away: %s", parent,
                         strerror(errno));
        return false;
    }
    return make_in(cgroup, parent, name);
}

static bool create_v1(struct cgroup *cgroup, const char *name)
{
    char place[CGROUP_PATH_MAX], parent[CGROUP_PATH_MAX];
    if (access(V1_ROOT "/memory.limit_in_bytes", F_OK))
        return false;
    own_place("memory", place);
    if (str_printf(parent, sizeof(parent), V1_ROOT "%s", place))
        return false;
    if (access(parent, F_OK)) /* mounted below what /proc names, as in a container */
        (void)str_copy(parent, sizeof(parent), V1_ROOT);
    return make_in(cgroup, parent, name);
}

static void limit(struct cgroup *cgroup, uint64_t memory_bytes)
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

void cgroup_create(const char *name, uint64_t memory_bytes, struct cgroup *ret)
{
    *ret = (struct cgroup){.kind = CGROUP_NONE};
    (void)str_copy(ret->why, sizeof(ret->why), "no cgroup hierarchy with a memory controller");
    if (create_v2(ret, name))
        ret->kind = CGROUP_V2;
    else if (create_v1(ret, name))
        ret->kind = CGROUP_V1;
    if (ret->kind == CGROUP_NONE) {
        ret->path[0] = '\0';
        return;
    }
    ret->why[0] = '\0';
    if (memory_bytes > 0)
        limit(ret, memory_bytes);
}

void cgroup_open(const char *path, struct cgroup *ret)
{
    char text[TEXT_BYTES];
    *ret = (struct cgroup){.kind = CGROUP_NONE};
    if (!path[0] || str_copy(ret->path, sizeof(ret->path), path) ||
        !read_file(ret, "cgroup.procs", text)) {
        ret->path[0] = '\0';
        return;
    }
    ret->kind = read_file(ret, "memory.oom_control", text) ? CGROUP_V1 : CGROUP_V2;
}

int cgroup_procs_fd(const struct cgroup *cgroup)
{
    char path[CGROUP_PATH_MAX];
    if (cgroup->kind == CGROUP_NONE ||
        str_printf(path, sizeof(path), "%s/cgroup.procs", cgroup->path))
        return -1;
    return open(path, O_WRONLY | O_CLOEXEC);
}

int cgroup_list(const struct cgroup *cgroup, pid_t *ret, int max)
{
    char text[TEXT_BYTES];
    struct str rest, line;
    int count = 0;
    if (cgroup->kind == CGROUP_NONE || !read_file(cgroup, "cgroup.procs", text))
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

int cgroup_kill(const struct cgroup *cgroup)
{
    pid_t pids[CGROUP_PROCS_MAX];
    int count = cgroup_list(cgroup, pids, CGROUP_PROCS_MAX);
    for (int i = 0; i < count; i++)
        kill(pids[i], SIGKILL);
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

void cgroup_remove(const struct cgroup *cgroup)
{
    if (cgroup->kind != CGROUP_NONE)
        rmdir(cgroup->path);
}
