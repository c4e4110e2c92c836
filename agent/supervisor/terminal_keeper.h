/* The keeper of a terminal: `muster shim --dir RUNDIR --terminal`, a process of the agent between
 * it and a process beside a worker. The agent starts one per terminal in the worker's namespaces
 * and passes descriptors:
 *
 *   3         a socket (SOCK_SEQPACKET): a wish arrives, reports leave, its end is a hang-up
 *   4         the pty, or
 *   4, 5, 6   standard input, output and error of the process
 *
 *            started, or no start: report
 *                   │      hang-up, own end          grace is over, worker's end, SIGUSR1
 *   read wish ─► spawn ─► run ─► hang up (SIGHUP) ─► kill (SIGKILL) ─► none left: report
 *
 * The keeper is the subreaper of all processes of the terminal, so that none outlives it. It sees
 * the worker's end itself, whatever happens to the agent. If it is killed, the process dies too.
 */
#ifndef SUPERVISOR_TERMINAL_KEEPER_H
#define SUPERVISOR_TERMINAL_KEEPER_H

#include "agent/supervisor/terminal.h"

enum {
    KEEPER_CONTROL_FD = 3,
    KEEPER_FIRST_FD = 4,
    KEEPER_FDS_MAX = 3,
    /* One message: the flag, TERM, then the arguments (none = the shell), each with its NUL. */
    KEEPER_WISH_MAX_BYTES = TERMINAL_ARGS_MAX_BYTES + TERMINAL_TYPE_MAX_BYTES + 4,
};

/* The first text of a wish. */
#define KEEPER_WISH_PTY   "t"
#define KEEPER_WISH_PIPES "p"

struct keeper_report {       /* one message; agent and keeper are the same program */
    struct terminal_end end; /* the last one */
};

/* `dir`: the absolute path of the run directory. 0 when the end was reported. */
int terminal_keeper_run(const char *dir, struct error *err);

#endif
