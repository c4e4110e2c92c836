/* `muster shim --dir RUNDIR`: the process that stays with a worker from start to end, whatever
 * happens to the agent. It starts the worker from rundir.h's launch.json, records its output, ends
 * its remaining processes, and records its exit. One thread, no RPC.
 *
 *   claim ─► port free? ─► cgroup ─► spawn ─► supervise ─► end the tree ─► exit.json
 *              └────────────┴──────────┴─► worker.json with start_error
 *
 * Processes that SIGKILL does not end are listed in stuck.json, and waited for without a limit.
 * SIGTERM: the job's stop signal to the worker's process group. SIGURG: its early signal. SIGUSR1:
 * SIGKILL to its whole tree. If the shim itself is killed the worker dies with it
 * (PR_SET_PDEATHSIG).
 *
 * `muster shim --dir RUNDIR --terminal` is another program of the agent: terminal_keeper.h.
 */
#ifndef SUPERVISOR_SHIM_H
#define SUPERVISOR_SHIM_H

/* `argv` without the program's name: --dir RUNDIR. Returns the exit status: 0 if the result was
 * recorded, 1 if it could not be (standard error has the reason), 2 for wrong usage. */
int shim_main(int argc, char **argv);

#endif
