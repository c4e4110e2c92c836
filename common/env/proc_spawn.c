#include "common/env/proc_spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/keyctl.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/assert.h"
#include "common/base/str.h"

enum {
    FD_ABOVE_ALL = 1 << 16, /* where close_range is missing, as far as we look */
    OOM_SCORE_BYTES = 16,   /* "-1000" to "1000", and a line end */
};

#define STEP_LIST(X)                                                                               \
    X(STEP_CGROUP, "enter the cgroup")                                                             \
    X(STEP_CONFINE, "enter its namespaces")                                                        \
    X(STEP_PASS_FD, "pass a descriptor")                                                           \
    X(STEP_NULL_FD, "open /dev/null")                                                              \
    X(STEP_SESSION, "start a session")                                                             \
    X(STEP_TERMINAL, "get its terminal")                                                           \
    X(STEP_USER, "change the user")                                                                \
    X(STEP_DIRECTORY, "enter the directory")                                                       \
    X(STEP_PRIVILEGES, "drop privileges")                                                          \
    X(STEP_PARENT, "follow the parent")                                                            \
    X(STEP_PROGRAM, "find the program")                                                            \
    X(STEP_EXEC, "execute")

enum step {
#define X(name, text) name,
    STEP_LIST(X)
#undef X
};

static const char *const step_texts[] = {
#define X(name, text) text,
    STEP_LIST(X)
#undef X
};

/* A failure in the child, sent through a pipe that exec closes. */
struct failure {
    enum step step;
    int problem; /* errno */
};

struct child {
    const struct proc_spawn *how;
    const char *search;  /* PATH; NULL: how->path is complete */
    char path[PATH_MAX]; /* of the program; in the child, where it was searched */
    pid_t parent;
    int report_fd; /* write end */
    int null_fd;
};

_Noreturn static void give_up(const struct child *child, enum step step)
{
    struct failure failure = {step, errno};
    _exit(write(child->report_fd, &failure, sizeof(failure)) < 0 ? 126 : 127);
}

static void default_signals(void)
{
    struct sigaction standard = {.sa_handler = SIG_DFL};
    sigset_t none;
    for (int signal = 1; signal < NSIG; signal++)
        sigaction(signal, &standard, NULL); /* fails for KILL and STOP, as it should */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Everything is marked to close at exec rather than closed: the report pipe is still needed. */
static void mark_all_close_on_exec(void)
{
    if (close_range(3, ~0u, CLOSE_RANGE_CLOEXEC) == 0)
        return;
    for (int fd = 3; fd < FD_ABOVE_ALL; fd++)
        fcntl(fd, F_SETFD, FD_CLOEXEC);
}

/* Two passes: all sources are moved above every target first, so that no target overwrites one. */
static void arrange_fds(struct child *child)
{
    const struct proc_spawn *how = child->how;
    int moved[PROC_FDS_MAX], above = 3;
    bool named[3] = {false, false, false};
    for (size_t i = 0; i < how->fd_count; i++)
        if (how->fds[i].to >= above)
            above = how->fds[i].to + 1;
    child->report_fd = fcntl(child->report_fd, F_DUPFD_CLOEXEC, above);
    int null_fd = fcntl(child->null_fd, F_DUPFD_CLOEXEC, above);
    for (size_t i = 0; i < how->fd_count; i++) {
        moved[i] = fcntl(how->fds[i].from, F_DUPFD_CLOEXEC, above);
        if (moved[i] < 0)
            give_up(child, STEP_PASS_FD);
    }
    mark_all_close_on_exec();
    for (size_t i = 0; i < how->fd_count; i++) {
        if (dup2(moved[i], how->fds[i].to) < 0)
            give_up(child, STEP_PASS_FD);
        if (how->fds[i].to < 3)
            named[how->fds[i].to] = true;
    }
    for (int fd = 0; fd < 3; fd++)
        if (!named[fd] && dup2(null_fd, fd) < 0)
            give_up(child, STEP_NULL_FD);
}

/* A smaller score would be inherited from a daemon that protects itself. */
static void raise_oom_score(int score_min)
{
    char text[OOM_SCORE_BYTES];
    int fd = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
    ssize_t size = fd < 0 ? 0 : read(fd, text, sizeof(text));
    int score = 0;
    for (ssize_t i = 0; i < size && (text[i] == '-' || (text[i] >= '0' && text[i] <= '9')); i++)
        score = text[i] == '-' ? 0 : score * 10 + (text[i] - '0');
    bool lower = size > 0 && (text[0] == '-' || score < score_min);
    size_t at = sizeof(text);
    for (int rest = score_min; lower && rest > 0; rest /= 10)
        text[--at] = (char)('0' + rest % 10);
    if (lower && write(fd, text + at, sizeof(text) - at) < 0)
        return; /* where the kernel keeps it as it is, the worker still runs */
}

/* Leave the session keyring. Its owner can use the keys in it: those of the agent's user, and those
 * added by other users' processes started with it. Where the call is missing or forbidden, our
 * child cannot read keys either. Called while still root, because a user may make few keyrings. */
static bool leave_keyring(void)
{
    return syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) >= 0 || errno == ENOSYS ||
           errno == EPERM;
}

static void change_user(const struct child *child)
{
    const struct proc_spawn *how = child->how;
    if (!how->change_user)
        return;
    if (!leave_keyring() || setgroups(how->group_count, how->groups) < 0 ||
        setresgid(how->gid, how->gid, how->gid) < 0 || setresuid(how->uid, how->uid, how->uid) < 0)
        give_up(child, STEP_USER);
}

/* Relative folders in PATH are passed over: they would be searched in a directory we choose. */
static bool find_program(struct child *child)
{
    size_t name_size = strlen(child->how->path) + 1;
    for (const char *folder = child->search; name_size > 1 && *folder;) {
        size_t size = strcspn(folder, ":");
        if (size && folder[0] == '/' && size + 1 + name_size <= sizeof(child->path)) {
            memcpy(child->path, folder, size);
            child->path[size] = '/';
            memcpy(child->path + size + 1, child->how->path, name_size);
            if (access(child->path, X_OK) == 0)
                return true;
        }
        folder += size + (folder[size] == ':');
    }
    errno = ENOENT;
    return false;
}

/* Only async-signal-safe calls from here to exec. What the job names, a directory and a program, is
 * looked at by its user: it learns nothing of what only others may see. */
_Noreturn static void become(struct child *child)
{
    const struct proc_spawn *how = child->how;
    default_signals();
    for (int i = 0; i < PROC_CGROUPS_MAX; i++)
        if (how->cgroup_fds[i] > 0 && write(how->cgroup_fds[i], "0", 1) < 0)
            give_up(child, STEP_CGROUP);
    if (how->oom_score_min > 0)
        raise_oom_score(how->oom_score_min);
    if (how->confine && (errno = how->confine(how->confine_arg)))
        give_up(child, STEP_CONFINE);
    arrange_fds(child);
    if (how->new_session && setsid() < 0)
        give_up(child, STEP_SESSION);
    if (how->terminal && ioctl(STDIN_FILENO, TIOCSCTTY, 0) < 0)
        give_up(child, STEP_TERMINAL);
    change_user(child);
    if (how->cwd && chdir(how->cwd) < 0)
        give_up(child, STEP_DIRECTORY);
    if (how->no_new_privileges && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        give_up(child, STEP_PRIVILEGES);
    /* After the change of user, which would clear it. */
    if (how->parent_death_signal &&
        prctl(PR_SET_PDEATHSIG, (unsigned long)how->parent_death_signal) < 0)
        give_up(child, STEP_PARENT);
    if (how->parent_death_signal && getppid() != child->parent)
        _exit(127); /* it died before the request for the parent-death signal */
    if (child->search && !find_program(child))
        give_up(child, STEP_PROGRAM);
    static char *const nothing[] = {NULL};
    execve(child->path, (char *const *)how->argv, how->envp ? (char *const *)how->envp : nothing);
    give_up(child, STEP_EXEC);
}

static const char *environment_value(const char *const *envp, const char *name)
{
    size_t length = strlen(name);
    for (; envp && *envp; envp++)
        if (strncmp(*envp, name, length) == 0 && (*envp)[length] == '=')
            return *envp + length + 1;
    return NULL;
}

static int fork_child(struct child *child, pid_t *ret_pid, struct error *err)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* our handlers must not run in the child */
    pid_t pid = fork();
    if (pid == 0)
        become(child);
    int problem = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (pid < 0)
        return error_errno(err, problem, "cannot start a process");
    *ret_pid = pid;
    return 0;
}

static int explain_failure(const struct child *child, const struct failure *failure,
                           struct error *err)
{
    const char *path = child->how->path, *cwd = child->how->cwd;
    if (failure->step == STEP_PROGRAM)
        return error_set(err, E_NOT_FOUND, "%.200s: no such program in PATH", path);
    if (failure->step == STEP_DIRECTORY)
        return error_errno(err, failure->problem, "cannot start in %s on this machine", cwd);
    /* For the message: the searched path, if the name does not contain it. */
    const char *where = failure->step == STEP_EXEC && path[0] != '/' && !child->search ? cwd : NULL;
    return error_errno(err, failure->problem, "%s: cannot %s%s%s", path, step_texts[failure->step],
                       where ? " in " : "", where ? where : "");
}

/* Wait for exec (end of file) or for the report of what failed. */
static int await_exec(int report_fd, const struct child *child, pid_t pid, struct error *err)
{
    struct failure failure;
    ssize_t n;
    do {
        n = read(report_fd, &failure, sizeof(failure));
    } while (n < 0 && errno == EINTR);
    if (n == 0)
        return 0;
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    if (n != sizeof(failure))
        return error_set(err, E_INTERNAL, "lost a process while starting %s", child->how->path);
    return explain_failure(child, &failure, err);
}

static int start_child(struct child *child, struct proc *ret, struct error *err)
{
    int report[2];
    pid_t pid = 0;
    if (pipe2(report, O_CLOEXEC) < 0)
        return error_errno(err, errno, "pipe");
    child->report_fd = report[1];
    int rc = fork_child(child, &pid, err);
    close(report[1]);
    if (!rc)
        rc = await_exec(report[0], child, pid, err);
    close(report[0]);
    if (rc)
        return rc;
    struct proc proc = {.pid = pid, .pidfd = pidfd_open(pid, 0)};
    if (proc.pidfd < 0 || proc_start_ticks(pid, &proc.start_ticks, err)) {
        rc = error_errno(err, errno, "cannot follow process %d", (int)pid);
        proc_close(&proc);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        return rc;
    }
    *ret = proc;
    return 0;
}

int proc_spawn(const struct proc_spawn *how, struct proc *ret, struct error *err)
{
    struct child child = {.how = how, .parent = getpid()};
    insist(how->fd_count <= PROC_FDS_MAX && how->group_count <= PROC_GROUPS_MAX);
    const char *path = environment_value(how->envp, "PATH");
    if (!strchr(how->path, '/'))
        child.search = path ? path : "/usr/local/bin:/usr/bin:/bin";
    else if (str_copy(child.path, sizeof(child.path), how->path))
        return error_set(err, E_INVALID_ARGUMENT, "%.60s...: too long", how->path);
    child.null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (child.null_fd < 0)
        return error_errno(err, errno, "/dev/null");
    int rc = start_child(&child, ret, err);
    close(child.null_fd);
    return rc;
}
