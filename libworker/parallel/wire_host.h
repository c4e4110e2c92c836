/* The calls of wire.h on memory of the host, by worker/comm.h. Part of wire.h. */
#ifndef PARALLEL_WIRE_HOST_H
#define PARALLEL_WIRE_HOST_H

#include "libworker/parallel/wire.h"

/* Begins it. A sum that does not convert has in == out. */
int wire_on_host(struct wk_comm *comm, const struct wire_call *call, struct wk_work **ret);

#endif
