/* `muster show JOB --ranks`: what each rank reported last, and how long its steps take. */
#ifndef CLI_RANK_TABLE_H
#define CLI_RANK_TABLE_H

#include "cli/client.h"

/* Asks for all ranks of `job` and prints them in the form of -o; the exit code. */
int rank_table_show(const struct args *args, struct client *client, const char *job);

#endif
