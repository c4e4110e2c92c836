/* The keeper of a terminal: `muster shim --dir RUNDIR --terminal`, a process of the agent between
 * it and a process beside a worker. The agent starts one per terminal in the worker's namespaces
 * and passes descriptors:
 *
 *   3         a socket (SOCK_SEQPACKET): a wish arrives, a report leaves, its end is a hang-up
 *   4         the pty, or
 *   4, 5, 6   standard input, output and error of the process
 *
 *                              hang-up,            grace is over,
 *                              own end             worker's end, SIGUSR1
 *   read wish ─► spawn ─► run ─► hang up (SIGHUP) ─► kill (SIGKILL) ─► none left: report
 *
 * The keeper is the subreaper of all processes of the terminal, so that none outlives it. It sees
 * the worker's end itself, whatever happens to the agent. If it is killed, the process dies too.
 */
#ifndef SUPERVISOR_TERMINAL_KEEPER_H
#define SUPERVISOR_TERMINAL_KEEPER_H

#include <stdint.h>

#include "agent/supervisor/terminal.h"

enum {
    KEEPER_CONTROL_FD = 3,
    KEEPER_FIRST_FD = 4,
    KEEPER_FDS_MAX = 3,
    KEEPER_REPORT_VERSION = 1,
    /* One message: the flag, TERM, then the arguments (none = the shell), each with its NUL. */
    KEEPER_WISH_MAX_BYTES = TERMINAL_ARGS_MAX_BYTES + TERMINAL_TYPE_MAX_BYTES + 4,
};

/* The first text of a wish. */
#define KEEPER_WISH_PTY   "t"
#define KEEPER_WISH_PIPES "p"

/* One message, the only one. It begins with its version: the agent's program may have been replaced
 * by a newer one, which is then its keepers' program, since the agent was started. */
struct keeper_report {
    uint32_t version; /* KEEPER_REPORT_VERSION */
    struct terminal_end end;
};

/* `dir`: the absolute path of the run directory. 0 when the end was reported. */
int terminal_keeper_run(const char *dir, struct error *err);

#endif
