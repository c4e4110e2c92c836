/* Communicators of some of the ranks: wk_comm_split, wk_comm_subgroup and wk_comm_axis of
 * worker/comm.h, on the thread of their caller. A group belongs to its maker, as any communicator.
 */
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
