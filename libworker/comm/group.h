/* Communicators of some of the ranks (wk_comm_split and its kin in worker/comm.h). */
#ifndef COMM_GROUP_H
#define COMM_GROUP_H

#include <stdint.h>

#include "libworker/comm/comm.h"

/* The facts each rank sends the others at a split. */
struct group_seat {
    int32_t color, key, rank, host;
    char endpoint[COMM_ENDPOINT_BYTES];
};

#endif
