/* The end of what a worker has left behind, on a machine with so many processes that each look
 * through /proc takes long. */
#include <criterion/criterion.h>

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/supervisor/tree.h"
#include "common/env/proc.h"

enum { LOOK_MS = 100, MOST_MS = 500, ROUND_MS = 10 };

static pid_t child;
static int looks;
static bool killable;

int __real_kill(pid_t pid, int signal);
int __wrap_kill(pid_t pid, int signal);
int __wrap_proc_descendants(pid_t pid, pid_t **ret_pids, size_t *ret_count, struct error *err);

int __wrap_kill(pid_t pid, int signal)
{
    return killable ? __real_kill(pid, signal) : 0;
}

int __wrap_proc_descendants(pid_t pid, pid_t **ret_pids, size_t *ret_count, struct error *err)
{
    (void)pid;
    (void)err;
    usleep(LOOK_MS * 1000);
    looks++;
    *ret_count = waitpid(child, NULL, WNOHANG) == 0;
    *ret_pids = malloc(sizeof(**ret_pids));
    cr_assert(*ret_pids);
    **ret_pids = child;
    return 0;
}

static void begin(void)
{
    child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    cr_assert(child > 0);
}

TestSuite(tree, .init = begin);

Test(tree, what_cannot_be_killed_is_told_in_time_however_long_a_look_takes)
{
    struct cgroup cgroup = {0};
    cr_expect_not(tree_end_own(&cgroup, MOST_MS, ROUND_MS));
    cr_expect_leq(looks, MOST_MS / LOOK_MS, "it looked %d times", looks);
    killable = true;
    while (!tree_end_own(&cgroup, MOST_MS, ROUND_MS)) /* a hang is ended by criterion */
        ;
}

Test(tree, it_is_looked_at_once_where_there_is_no_time)
{
    struct cgroup cgroup = {0};
    cr_expect_not(tree_end_own(&cgroup, 0, ROUND_MS));
    cr_expect_eq(looks, 1);
    killable = true;
    __real_kill(child, SIGKILL);
    (void)waitpid(child, NULL, 0);
}
