/* Identifies the process of a run directory. */
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "agent/supervisor/rundir.h"
#include "common/base/str.h"
#include "common/env/proc.h"

static void read_boot_id(char ret[BOOT_ID_BYTES])
{
    ret[0] = '\0';
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    ssize_t size = read(fd, ret, BOOT_ID_BYTES - 1);
    close(fd);
    ret[size > 0 ? size : 0] = '\0';
    ret[strcspn(ret, "\n")] = '\0';
}

int run_process_of(pid_t pid, struct run_process *ret, struct error *err)
{
    struct run_process process = {.pid = pid};
    int rc = proc_start_ticks(pid, &process.start_ticks, err);
    if (rc)
        return rc;
    read_boot_id(process.boot);
    *ret = process;
    return 0;
}

int run_cgroup_name(const struct worker_key *key, int64_t shim, char ret[RUNDIR_PATH_MAX])
{
    return str_printf(ret, RUNDIR_PATH_MAX, "%s.%" PRIu64 ".%" PRId64, key->job, key->uid, shim);
}

bool run_process_alive(const struct run_process *process)
{
    char boot[BOOT_ID_BYTES];
    read_boot_id(boot);
    return process->pid > 0 && strcmp(boot, process->boot) == 0 &&
           proc_alive((pid_t)process->pid, process->start_ticks);
}
