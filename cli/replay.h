/* `muster events --replay`: the state as it was at an event, from the coordinator or from a file.
 */
#ifndef CLI_REPLAY_H
#define CLI_REPLAY_H

#include "common/base/args.h"

/* Rows of the verb's table. */
#define REPLAY_OPTIONS                                                                             \
    {.name = "replay",                                                                             \
     .kind = ARGS_FLAG,                                                                            \
     .help = "show the state that the events led to (admins), rebuilt from the history of "        \
             "changes and compared with the store"},                                               \
        {.name = "at",                                                                             \
         .kind = ARGS_OPTION,                                                                      \
         .value_name = "SEQ|TIME",                                                                 \
         .help = "with --replay: after this event, or at this time (2026-11-20T09:15:00Z)"},       \
        {.name = "data",                                                                           \
         .kind = ARGS_OPTION,                                                                      \
         .value_name = "PATH",                                                                     \
         .help = "with --replay: of this backup or data directory, without a coordinator"},        \
    {                                                                                              \
        .name = "json", .kind = ARGS_FLAG, .help = "with --replay: as -o json"                     \
    }

/* Returns the exit code. */
int replay_run(const struct args *args);

#endif
