/* /proc/<pid>/stat, read once. Private to proc*.c. */
#ifndef ENV_PROC_STAT_H
#define ENV_PROC_STAT_H

#include <stdint.h>
#include <sys/types.h>

struct proc_stat {
    char state; /* 'R', 'S', ... 'Z' for a zombie */
    pid_t parent;
    uint64_t start_ticks;
};

/* E_NOT_FOUND if there is no such process. */
int proc_stat_read(pid_t pid, struct proc_stat *ret);

#endif
