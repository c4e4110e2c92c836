/* `muster coordinator`: parses options, builds the real env, store, coordinator and REST, runs
 * until SIGTERM or SIGINT. Returns the exit code of the program: 0 after a signal, 2 for usage, 3
 * if it cannot start.
 */
#ifndef DAEMON_COMMAND_H
#define DAEMON_COMMAND_H

/* `argv` after the verb: argv[0] is the first option. */
int coordinator_main(int argc, char **argv);

#endif
