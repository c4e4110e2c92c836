/* What is new in each pass. Kernels of a device's own read it from the device's memory, so that
 * their arguments are those of the pass before (device/replay.h). Also for C++. */
#ifndef GRAPH_KEYS_H
#define GRAPH_KEYS_H

#include <stdint.h>

struct op_keys {
    uint64_t seed, first_sample; /* as struct op_pass has them (op_call.h) */
};

#endif
