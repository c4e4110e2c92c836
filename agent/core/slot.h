/* The slots that are GPUs, and the memory of those. A worker's processes end before the driver
 * has freed all of their memory, and some leave memory in use. So a slot gets its next worker once
 * its memory is back at the baseline: what was in use when the slot was last idle.
 *
 *       a worker starts           its processes ended          memory is back
 *     idle ──────────────► used ──────────────────► clearing ────────────────► idle
 *                                                       │ AGENT_CLEARING_MS       ▲
 *                                                       └──────────► held ────────┘
 *
 * Reports have the held slots, and the coordinator places no job on them. Slots are watched from
 * the first reading on; slots that are no GPUs have none. Part of the agent's core (step.h): pure.
 */
#ifndef AGENT_SLOT_H
#define AGENT_SLOT_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/core/action.h"

enum {
    AGENT_SLOTS_WATCHED_MAX = 64,
    AGENT_CLEARING_MS = 15000,
    /* Above the baseline, and in all where there is none: the agent started after the worker. */
    AGENT_CLEAR_SLACK_BYTES = 128 << 20,
    AGENT_CLEAR_UNKNOWN_BYTES = 1 << 30,
};

enum agent_slot_state {
    AGENT_SLOT_IDLE,
    AGENT_SLOT_USED,
    AGENT_SLOT_CLEARING,
    AGENT_SLOT_HELD,
};

struct agent_slot {
    enum agent_slot_state state;
    int64_t used_bytes;     /* of its GPU's memory, as read last; -1: it cannot be read */
    int64_t baseline_bytes; /* -1: it was never read while the slot was idle */
    int64_t since_ms;       /* with CLEARING: when its worker's processes had ended */
};

struct agent_core;
struct agent_event;

/* AGENT_EVENT_GPUS. A reading that began before the worker's end is too old for it. */
void agent_slots_read(struct agent_core *core, const struct agent_event *event,
                      struct agent_actions *ret);

/* Follow the workers and the time. Returns when a slot is held at the latest; INT64_MAX: never. */
int64_t agent_slots_settle(struct agent_core *core, int64_t now_ms, struct agent_actions *ret);

/* A worker starts on them now. */
void agent_slots_use(struct agent_core *core, const struct assignment *assignment);

/* The first of these slots that is in that state; -1: none. */
int agent_slots_find(const struct agent_core *core, const struct assignment *assignment,
                     enum agent_slot_state state);

/* Those that are watched, by slot. For reports. */
const struct agent_slot *agent_core_slots(const struct agent_core *core, int *ret_count);

/* Bytes in use above the baseline; 0 if they cannot be read. */
int64_t agent_slot_excess(const struct agent_slot *slot);

#endif
