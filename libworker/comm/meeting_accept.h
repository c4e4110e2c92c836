/* The half of a meeting that accepts. On the thread of comm_connect; errors as comm_connect. */
#ifndef COMM_MEETING_ACCEPT_H
#define COMM_MEETING_ACCEPT_H

#include "libworker/comm/meeting.h"

/* Accept all connections of the higher ranks. */
int meeting_accept(struct meeting *meeting, struct error *err);

#endif
