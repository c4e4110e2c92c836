/* A GPU of a node: what it is, what its agent last read of it. Part of the node (node.h), at the
 * place of its slot. */
#ifndef MODEL_GPU_H
#define MODEL_GPU_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/gpu_link.h"

enum { NODE_GPUS_MAX = GPU_LINKS_MAX };

/* As its agent last read it. Never stored. */
struct gpu_now {
    bool known, lost; /* lost: it cannot be read any more */
    bool slowed_by_power, slowed_by_heat;
    int8_t used_percent;             /* -1: not known */
    int temperature_c, power_w, xid; /* 0: not known, none */
    int64_t memory_used_bytes, ecc_errors;
};

struct gpu;

struct slot_held { /* proto SlotHeld */
    int slot;
    int64_t memory_bytes;
};

struct gpu_news {              /* of one report; borrowed */
    const struct gpu_now *now; /* by slot */
    int now_count;             /* 0: not read since the last report */
    const struct slot_held *held;
    int held_count;
    const struct gpu *links; /* by slot; of each only its links, nvlinks and nvswitch */
    int links_count;         /* 0: not read since the last report */
};

struct gpu {
    int index;
    char model[64];
    char uuid[48];
    int64_t memory_bytes;
    bool instance, persistent, exclusive; /* proto Gpu */
    int nvlinks;                          /* -1: not known */
    char links[GPU_LINKS_TEXT_BYTES];     /* a row (base/gpu_link.h), by slot; "" = not known */
    bool nvswitch;                        /* proto Gpu */
    int pcie_generation, pcie_lanes;      /* 0: not known */
    int numa_place;                       /* its NUMA node and 1; 0: not known */
    struct gpu_now now;
    bool held;          /* its agent keeps its slot: memory is in use after its last worker's end.
                         * Never stored */
    int64_t held_bytes; /* with held: more than before that worker; 0 = it cannot be read */
};

#endif
