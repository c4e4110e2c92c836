/* The stacks of a worker's processes: requested by a signal, received as text on connections that
 * they made for it (docs/report.md). Private to report_*.c. */
#ifndef LINK_REPORT_STACKS_H
#define LINK_REPORT_STACKS_H

#include "agent/link/report_state.h"

/* This connection is for stacks from now on; its process writes them at `line->signal`, to the
 * connection, or to a pipe that it is given here. */
void report_stacks_offer(struct reporter *r, struct lines_peer *peer,
                         const struct report_line *line);
/* Before the peer's data are freed: what its pipe still has is read. */
void report_stacks_end(struct lines_peer *peer);
/* Signal all of them. False if there is none. Their text is passed on when they are silent, or
 * after REPORT_STACKS_MS. */
bool report_stacks_take(struct reporter *r);
/* The stacks were found: a silent worker's place is reported at once. */
void report_stacks_place(struct reporter *r, const char *text);
void report_stacks_add(struct reporter *r, struct lines_peer *peer, const char *bytes, size_t size);

/* The innermost frame, as "train.py:42 in load". In the text of Python's faulthandler it is that of
 * the thread that got the signal; in py-spy's, of the first process's main thread. "" of others. */
void report_stacks_where(const char *text, char *ret, size_t size);

#endif
