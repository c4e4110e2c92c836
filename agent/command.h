/* `muster agent`: parses options, builds the real env, launcher and agent, and runs until SIGTERM
 * or SIGINT.
 *
 * It ends the process with the program's exit code (_exit: see env/net_os.h on NNG). For wrong
 * usage it returns the code. The codes are 0 after a signal or when a newer agent of this node has
 * replaced it, 2 for usage, 3 if it cannot start.
 */
#ifndef AGENT_COMMAND_H
#define AGENT_COMMAND_H

/* `argv` after the verb: argv[0] is the first option. */
int agent_main(int argc, char **argv);

#endif
