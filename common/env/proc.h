/* Processes: follow and signal one by pidfd, and distinguish it from a later process with the same
 * number (by start time, field 22 of /proc/<pid>/stat). proc_spawn.h starts one. Any thread. */
#ifndef ENV_PROC_H
#define ENV_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/base/error.h"

enum { PROC_DESCENDANTS_MAX = 4096 };

struct proc { /* one process, from proc_spawn or proc_open; released by proc_close */
    pid_t pid;
    int pidfd;            /* readable when it has exited: loop_watch it; -1 when closed */
    uint64_t start_ticks; /* together with the pid it identifies the process until the next boot */
};

/* A running process by number; E_NOT_FOUND if it has ended or has another start time. `start_ticks`
 * 0 accepts any. */
int proc_open(pid_t pid, uint64_t start_ticks, struct proc *ret, struct error *err);
void proc_close(struct proc *proc); /* the process continues */

/* E_NOT_FOUND when it has exited. The group form signals its process group, which it must lead. */
int proc_signal(const struct proc *proc, int signal, struct error *err);
int proc_signal_group(const struct proc *proc, int signal, struct error *err);

struct proc_exit {
    int code;   /* exit status, -1 if killed by a signal */
    int signal; /* 0 if it exited */
    bool core_dumped;
};

/* Reap a child. E_UNAVAILABLE while it runs (block false); E_NOT_FOUND if it is not our child. */
int proc_wait(const struct proc *proc, bool block, struct proc_exit *ret, struct error *err);

bool proc_alive(pid_t pid, uint64_t start_ticks); /* zombies are not alive */
int proc_start_ticks(pid_t pid, uint64_t *ret, struct error *err);
/* The effective user of this process, root's for one that may not be looked into (PR_SET_DUMPABLE).
 * E_NOT_FOUND when it has exited. */
int proc_user(const struct proc *proc, uid_t *ret, struct error *err);

/* All descendants, parents before children, malloc'd; the caller frees. A snapshot: fork bombs may
 * outrun it, cgroups do not. */
int proc_descendants(pid_t pid, pid_t **ret_pids, size_t *ret_count, struct error *err);

#endif
