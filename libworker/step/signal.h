/* SIGTERM and Ctrl-C as requests to stop. A signal handler has no argument, so its result is the
 * one thing in libworker that belongs to the process: a count. Contexts compare it with the count
 * at their start.
 *
 * A handler is installed only where the disposition is the default, so not over the program's own
 * handler, nor where the shell had the signal ignored. It is removed with the last context. Ctrl-C
 * prints at once what follows; a second one ends the process as usual. Any thread.
 */
#ifndef STEP_SIGNAL_H
#define STEP_SIGNAL_H

void signal_watch(void); /* nests */
void signal_unwatch(void);
int signal_count(void); /* stop signals of this process so far */

#endif
