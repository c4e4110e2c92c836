#include "agent/core/slot.h"

#include "agent/core/event.h"
#include "agent/core/state.h"

int64_t agent_slot_excess(const struct agent_slot *slot)
{
    int64_t baseline = slot->baseline_bytes < 0 ? 0 : slot->baseline_bytes;
    return slot->used_bytes > baseline ? slot->used_bytes - baseline : 0;
}

static bool is_clear(const struct agent_slot *slot)
{
    int64_t slack = slot->baseline_bytes < 0 ? AGENT_CLEAR_UNKNOWN_BYTES : AGENT_CLEAR_SLACK_BYTES;
    return slot->used_bytes >= 0 && agent_slot_excess(slot) <= slack;
}

static bool covers(const struct agent_worker *worker, int slot)
{
    const struct assignment *a = worker->assignment;
    return !a || ((uint32_t)slot >= a->slot && (uint32_t)slot < a->slot + a->slots);
}

/* Also by a worker of an earlier agent, as its slots are not known yet. */
static bool is_used(const struct agent_core *core, int slot)
{
    for (const struct agent_worker *w = core->workers; w; w = w->next)
        if (w->process && covers(w, slot))
            return true;
    return false;
}

static void follow_worker(const struct agent_core *core, int number, struct agent_slot *slot,
                          int64_t now_ms)
{
    if (is_used(core, number)) {
        slot->state = AGENT_SLOT_USED;
    } else if (slot->state == AGENT_SLOT_USED) {
        slot->state = AGENT_SLOT_CLEARING;
        slot->since_ms = now_ms;
    }
}

void agent_slots_read(struct agent_core *core, const struct agent_event *event,
                      struct agent_actions *ret)
{
    int count = event->gpus.count;
    for (int i = core->slots_count; i < count && i < AGENT_SLOTS_WATCHED_MAX; i++) {
        core->slots[i] = (struct agent_slot){.baseline_bytes = -1};
        follow_worker(core, i, &core->slots[i], event->now_ms);
        core->slots_count = i + 1;
    }
    for (int i = 0; i < core->slots_count && i < count; i++) {
        struct agent_slot *slot = &core->slots[i];
        bool cleared = slot->state == AGENT_SLOT_CLEARING && event->gpus.begun_ms >= slot->since_ms;
        slot->used_bytes = event->gpus.used_bytes[i];
        if (slot->state == AGENT_SLOT_IDLE && slot->used_bytes >= 0)
            slot->baseline_bytes = slot->used_bytes;
        if (!is_clear(slot) || (!cleared && slot->state != AGENT_SLOT_HELD))
            continue;
        if (slot->state == AGENT_SLOT_HELD)
            agent_actions_add(ret, AGENT_ACTION_REPORT);
        slot->state = AGENT_SLOT_IDLE;
    }
}

int64_t agent_slots_settle(struct agent_core *core, int64_t now_ms, struct agent_actions *ret)
{
    int64_t next_ms = INT64_MAX;
    for (int i = 0; i < core->slots_count; i++) {
        struct agent_slot *slot = &core->slots[i];
        follow_worker(core, i, slot, now_ms);
        if (slot->state != AGENT_SLOT_CLEARING)
            continue;
        int64_t until_ms = slot->since_ms + AGENT_CLEARING_MS;
        if (now_ms >= until_ms) {
            slot->state = AGENT_SLOT_HELD;
            agent_actions_add(ret, AGENT_ACTION_REPORT);
        } else if (until_ms < next_ms) {
            next_ms = until_ms;
        }
    }
    if (next_ms < INT64_MAX)
        agent_actions_add(ret, AGENT_ACTION_READ_GPUS);
    return next_ms;
}

void agent_slots_use(struct agent_core *core, const struct assignment *assignment)
{
    for (uint32_t i = assignment->slot; i < assignment->slot + assignment->slots; i++)
        if (i < (uint32_t)core->slots_count)
            core->slots[i].state = AGENT_SLOT_USED;
}

int agent_slots_find(const struct agent_core *core, const struct assignment *assignment,
                     enum agent_slot_state state)
{
    for (uint32_t i = assignment->slot; i < assignment->slot + assignment->slots; i++)
        if (i < (uint32_t)core->slots_count && core->slots[i].state == state)
            return (int)i;
    return -1;
}

const struct agent_slot *agent_core_slots(const struct agent_core *core, int *ret_count)
{
    *ret_count = core->slots_count;
    return core->slots;
}
