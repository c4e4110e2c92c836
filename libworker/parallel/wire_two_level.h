/* Collectives of a device's memory in two levels, where hosts have no wire between them
 * (wires_hosts.h): the device's own within a host, worker/comm.h between hosts.
 *
 *      L ranks on each of H hosts; rank i of a host has piece i of what its host sends
 *
 *              inside, device         copy      between, host       copy      inside, device
 *      sum     scatter: its piece ──► pinned ──► sum over hosts ──► pinned ──► gather the pieces
 *      scatter one for each host  ──► pinned ──► scatter        ──► out
 *      gather                 in  ──► pinned ──► gather         ──► rows   ──► one for each host
 *      spread  of the root's host ──► pinned ──► to the hosts   ──► pieces ──► gather the pieces
 *
 * Bytes: of n bytes in all a host sends 2 (H-1)/H n for a sum, (H-1)/H n for a scatter or a gather.
 * That is once, and not once for each rank. A spread sends n (H-1) from the root's host. A rank
 * copies its part, n / L, to the host and back.
 *
 * Elements that are not a multiple of L pieces, a few, are summed and sent by every rank. Narrow
 * sums are float between the levels, and rounded once. Part of wire.h: its calls in order.
 */
#ifndef PARALLEL_WIRE_TWO_LEVEL_H
#define PARALLEL_WIRE_TWO_LEVEL_H

#include "libworker/parallel/wire.h"

/* Whether this call is made so: not sums of floats in rank order, not exchanges, not of nothing. */
bool two_level_takes(const struct wire_work *work);

/* What wire.c does in a call's three parts. */
int two_level_start(struct wire_work *work);
int two_level_begin(struct wire_work *work); /* the stage is there */
int two_level_send(struct wire_work *work);  /* the host's part has ended; sets `done` */

#endif
