/* The activity of a process: its state, and the kernel function in which its first thread waits.
 * None of the files that are read needs the lock of its memory, so a process that hangs in the
 * kernel does not hang the caller. Any thread.
 *
 * Sources: proc_pid_status(5), proc_pid_wchan(5).
 */
#ifndef ENV_PROC_ACTIVITY_H
#define ENV_PROC_ACTIVITY_H

#include <sys/types.h>

enum { PROC_NAME_BYTES = 64, PROC_CHANNEL_BYTES = 64 };

struct proc_activity {
    char name[PROC_NAME_BYTES];       /* as the program wrote it: not text to be trusted */
    char state;                       /* 'R', 'S', ... */
    int threads;                      /* 0 = unknown */
    char channel[PROC_CHANNEL_BYTES]; /* "" = it does not wait, or that is not known */
};

/* E_NOT_FOUND if there is no such process. */
int proc_activity_read(pid_t pid, struct proc_activity *ret);

/* "sleeping" */
const char *proc_state_text(char state);

#endif
