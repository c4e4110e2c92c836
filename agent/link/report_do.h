/* What each "do" of docs/report.md does. Private to report_*.c. */
#ifndef LINK_REPORT_DO_H
#define LINK_REPORT_DO_H

#include "agent/link/report_state.h"

struct report_said { /* a line that was read */
    struct reporter *r;
    struct lines_peer *peer; /* NULL: no answer is wanted */
    const struct report_line *line;
    const struct agent_worker *worker;
};

void report_perform(const struct report_said *said);

#endif
