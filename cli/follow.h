/* Follows a job to its end: log lines as in log_line.h, the job's events on stderr, and on a
 * terminal a progress bar below. It waits for lines and for events at the same time, so both are
 * printed at once, and continues after a restart of the coordinator. Returns the program's exit
 * code: 0 if the job succeeded, 1 if it failed or was cancelled, or as `exit_code`. Ctrl-C stops
 * following and does not change the job (130). */
#ifndef CLI_FOLLOW_H
#define CLI_FOLLOW_H

#include "cli/client.h"
#include "cli/log_line.h"

enum { EXIT_OWN_FAILURE = 125 }; /* with --exit-code: not the program failed */

struct follow {
    const char *id;
    int rank;       /* -1 = all */
    int tail_lines; /* start with the last ones; 0 = from the start */
    bool quiet;     /* log lines only */
    bool past;      /* also print earlier events of the job */
    bool exit_code; /* return the program's exit code, 128 + the signal that ended it, 130 if the
                     * job was cancelled, EXIT_OWN_FAILURE where no program's end is the cause */
    struct log_printer printer;
};

int follow_job(struct client *client, struct follow *how);

#endif
