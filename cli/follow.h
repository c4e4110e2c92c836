/* Follows a job to its end: log lines to stdout, what happens to it to stderr, and on a terminal a
 * progress bar below. Returns the exit code of the program: 0 if the job succeeded, 1 if it failed
 * or was cancelled. Ctrl-C stops following and leaves the job as it is (130).
 */
#ifndef CLI_FOLLOW_H
#define CLI_FOLLOW_H

#include "cli/client.h"

struct follow {
    const char *id;
    int rank;       /* -1 = all */
    int tail_lines; /* start with the last ones; 0 = from the start */
    bool quiet;     /* log lines only */
    bool show_rank; /* prefix lines with their rank */
};

int follow_job(struct client *client, const struct follow *how);

/* One log line as people see it. */
void print_log_line(const Muster__LogLine *line, bool show_rank);

#endif
