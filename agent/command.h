/* `muster agent`: parses options, builds the real env, launcher and agent, runs until SIGTERM or
 * SIGINT. Ends the process with the exit code of the program (_exit: see env/net.h on NNG), or
 * returns it for wrong usage: 0 after a signal or when a newer agent of this node has taken over, 2
 * for usage, 3 if it cannot start.
 */
#ifndef AGENT_COMMAND_H
#define AGENT_COMMAND_H

/* `argv` behind the verb: argv[0] is the first option. */
int agent_main(int argc, char **argv);

#endif
