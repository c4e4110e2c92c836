/* Events for the connections of a reporter: stop, a new generation, how much was dropped. Private
 * to report_*.c. */
#ifndef LINK_REPORT_NEWS_H
#define LINK_REPORT_NEWS_H

#include "agent/link/report_state.h"

/* The events that this connection has not had. */
void report_news_say(struct reporter *r, const struct agent_worker *worker,
                     struct lines_peer *peer);
void report_news_say_all(struct reporter *r);
/* To all connections, at most every REPORT_DROPPED_MS. */
void report_news_say_dropped(struct reporter *r);

#endif
