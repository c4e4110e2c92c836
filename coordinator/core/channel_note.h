/* What EVENT_JOB_CHANNEL is to record of a channel beside a worker: a terminal, a program or a
 * connection (coordinator/relay). Borrowed for the step; loop thread only. */
#ifndef CORE_CHANNEL_NOTE_H
#define CORE_CHANNEL_NOTE_H

#include <stdbool.h>

struct channel_note {
    const char *job, *node; /* the job's id */
    int rank;
    bool ended;       /* else it was opened */
    bool quiet;       /* no record: one like it was recorded before */
    const char *text; /* who opened what, or how it ended */
};

#endif
