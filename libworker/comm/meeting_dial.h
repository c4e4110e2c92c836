/* The half of a meeting that dials. On the thread of comm_connect; errors as comm_connect. */
#ifndef COMM_MEETING_DIAL_H
#define COMM_MEETING_DIAL_H

#include "libworker/comm/meeting.h"

/* Make all connections to the lower rank `peer`. */
int meeting_dial(struct meeting *meeting, int peer, struct error *err);

#endif
