/* `muster shim --dir RUNDIR`: the one process that stays with a worker from start to end, whatever
 * happens to the agent. It starts the worker as rundir.h's launch.json says, writes its output
 * down, ends what it leaves behind, and records how it ended. One thread, no RPC.
 *
 *   claim ─► port free? ─► cgroup ─► spawn ─► supervise ─► end the tree ─► exit.json
 *              └────────────┴──────────┴─► worker.json with start_error
 *
 * Processes that SIGKILL does not end are named in stuck.json, and waited for without a limit.
 * SIGTERM: SIGTERM to the worker's process group. SIGUSR1: SIGKILL to its whole tree. If the shim
 * itself is killed the worker dies with it (PR_SET_PDEATHSIG).
 */
#ifndef SUPERVISOR_SHIM_H
#define SUPERVISOR_SHIM_H

/* `argv` without the program's name: --dir RUNDIR. Returns the exit status: 0 when it has recorded
 * what happened, 1 when it could not (standard error says why), 2 for wrong usage. */
int shim_main(int argc, char **argv);

#endif
