#include "agent/supervisor/tree.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/base/str.h"
#include "common/env/clock_os.h"
#include "common/env/proc.h"

enum { ENVIRON_MAX_BYTES = 256 << 10, PROC_PATH_BYTES = 64 };

int tree_prepare_own(int *ret_signal_fd, struct error *err)
{
    sigset_t signals;
    struct rlimit no_core = {0, 0};
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGUSR1);
    sigaddset(&signals, SIGURG);
    sigaddset(&signals, SIGCHLD);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    signal(SIGINT, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    setrlimit(RLIMIT_CORE, &no_core);
    if (prctl(PR_SET_CHILD_SUBREAPER, 1))
        return error_errno(err, errno, "child subreaper");
    int fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0)
        return error_errno(err, errno, "signalfd");
    *ret_signal_fd = fd;
    return 0;
}

void tree_signal_own(int signal)
{
    pid_t *pids = NULL;
    size_t count = 0;
    if (!proc_descendants(getpid(), &pids, &count, NULL))
        for (size_t i = 0; i < count; i++)
            kill(pids[i], signal);
    free(pids);
}

int tree_kill_own(const struct cgroup *cgroup)
{
    pid_t *pids = NULL;
    size_t count = 0;
    int killed = cgroup_kill(cgroup, NULL, 0);
    if (!proc_descendants(getpid(), &pids, &count, NULL))
        for (size_t i = 0; i < count; i++)
            kill(pids[i], SIGKILL);
    free(pids);
    return killed > (int)count ? killed : (int)count;
}

bool tree_end_own(const struct cgroup *cgroup, int most_ms, int round_ms)
{
    struct timespec round_time = {.tv_sec = round_ms / 1000, .tv_nsec = round_ms % 1000 * 1000000L};
    const struct clock clock = clock_os();
    int64_t due_ms = clock.now_ms(clock.self) + most_ms;
    do {
        int left = tree_kill_own(cgroup);
        pid_t reaped;
        do
            reaped = waitpid(-1, NULL, WNOHANG);
        while (reaped > 0);
        if (left == 0 && reaped < 0 && errno == ECHILD)
            return true;
        nanosleep(&round_time, NULL);
    } while (clock.now_ms(clock.self) < due_ms);
    return false;
}

/* Ascending, each once; the greatest are left out when there are too many. */
static void name_pid(struct worker_stuck *stuck, pid_t pid)
{
    int at = stuck->count;
    while (at > 0 && stuck->pids[at - 1] > pid)
        at--;
    if (at == AGENT_STUCK_PIDS_MAX || (at > 0 && stuck->pids[at - 1] == pid))
        return;
    int moved = stuck->count - at - (stuck->count == AGENT_STUCK_PIDS_MAX);
    memmove(&stuck->pids[at + 1], &stuck->pids[at], sizeof(stuck->pids[0]) * (size_t)moved);
    stuck->pids[at] = pid;
    if (stuck->count < AGENT_STUCK_PIDS_MAX)
        stuck->count++;
}

/* There may be more than were listed. */
static void name_pids(struct worker_stuck *stuck, const pid_t listed[AGENT_STUCK_PIDS_MAX],
                      int count)
{
    for (int i = 0; i < count && i < AGENT_STUCK_PIDS_MAX; i++)
        name_pid(stuck, listed[i]);
}

void tree_list_own(const struct cgroup *cgroup, struct worker_stuck *ret)
{
    pid_t *pids = NULL, listed[AGENT_STUCK_PIDS_MAX];
    size_t count = 0;
    ret->count = 0;
    if (!proc_descendants(getpid(), &pids, &count, NULL))
        for (size_t i = 0; i < count; i++)
            name_pid(ret, pids[i]);
    free(pids);
    name_pids(ret, listed, cgroup_list(cgroup, listed, AGENT_STUCK_PIDS_MAX));
}

static bool has_entry(const char *block, size_t size, const char *entry)
{
    size_t length = strlen(entry) + 1;
    for (size_t at = 0; at + length <= size;) {
        if (memcmp(block + at, entry, length) == 0)
            return true;
        const char *end = memchr(block + at, '\0', size - at);
        if (!end)
            return false;
        at = (size_t)(end - block) + 1;
    }
    return false;
}

static bool carries_mark(pid_t pid, const char *mark, char *block)
{
    char path[PROC_PATH_BYTES];
    size_t size = 0;
    ssize_t got;
    (void)str_printf(path, sizeof(path), "/proc/%d/environ", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    while (size < ENVIRON_MAX_BYTES && (got = read(fd, block + size, ENVIRON_MAX_BYTES - size)) > 0)
        size += (size_t)got;
    close(fd);
    return has_entry(block, size, mark);
}

int tree_kill_orphans(const char *mark, const struct cgroup *cgroup, struct worker_stuck *ret)
{
    pid_t pids[AGENT_STUCK_PIDS_MAX];
    int killed = cgroup_kill(cgroup, pids, AGENT_STUCK_PIDS_MAX);
    ret->count = 0;
    name_pids(ret, pids, killed);
    DIR *proc = mark[0] ? opendir("/proc") : NULL;
    char *block = malloc(ENVIRON_MAX_BYTES);
    struct dirent *entry;
    while (proc && block && (entry = readdir(proc))) {
        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (pid > 1 && pid != getpid() && carries_mark(pid, mark, block) &&
            kill(pid, SIGKILL) == 0) {
            name_pid(ret, pid);
            killed++;
        }
    }
    free(block);
    if (proc)
        closedir(proc);
    return killed;
}
