/* A collective in which a worker waits for other ranks: proto Wait in the agent's types. */
#ifndef AGENT_WAIT_H
#define AGENT_WAIT_H

#include <stdint.h>

enum { WAIT_RANKS_MAX = 16, WAIT_COMMUNICATOR_MAX = 31, WAIT_OPERATION_MAX = 127 };

struct worker_wait {
    char communicator[WAIT_COMMUNICATOR_MAX + 1];
    char operation[WAIT_OPERATION_MAX + 1];
    uint64_t sequence, bytes;
    uint32_t waited_ms; /* 0 = not waiting */
    uint32_t ranks[WAIT_RANKS_MAX];
    int ranks_named, ranks_count; /* number of entries in `ranks`, and of all such ranks */
};

#endif
