#include "agent/report.h"

#include "agent/core/slot.h"
#include "agent/link/wire.h"

enum { REPORT_ARENA_MAX_BYTES = 16 << 20 };

struct arena *report_arena(struct report *report)
{
    arena_fini(&report->arena);
    arena_init(&report->arena, REPORT_ARENA_MAX_BYTES);
    return &report->arena;
}

void report_output(struct report *report)
{
    if (outbox_ready(report->outbox))
        report_at(report, loop_now_ms(report->loop) + REPORT_MORE_MS);
}

static void on_reported(void *arg, uint64_t sequence, int code)
{
    struct report *report = arg;
    if (code)
        figures_resend(report->figures);
    if (sequence == report->data_sequence) {
        report->data_sequence = 0;
        outbox_done(report->outbox, code == 0, report->on_shipped, report->arg);
        if (code == 0)
            report_output(report);
    }
    report->on_answer(report->arg, sequence == coordinator_link_sequence(report->link), code);
}

/* Without room they are reported a beat later. */
static void fill_held(const struct agent_core *core, struct arena *arena,
                      Muster__NodeReport *message)
{
    int count = 0;
    const struct agent_slot *slots = agent_core_slots(core, &count);
    message->held = arena_pointers(arena, (size_t)count);
    Muster__SlotHeld *all = arena_array(arena, (size_t)count, sizeof(*all));
    for (int i = 0; message->held && all && i < count; i++) {
        if (slots[i].state != AGENT_SLOT_HELD)
            continue;
        Muster__SlotHeld *held = &all[message->n_held];
        muster__slot_held__init(held);
        held->slot = (uint32_t)i;
        held->memory_bytes = (uint64_t)agent_slot_excess(&slots[i]);
        message->held[message->n_held++] = held;
    }
}

static void send_report(struct report *report)
{
    Muster__NodeReport message = MUSTER__NODE_REPORT__INIT;
    if (!agent_core_registered(report->core))
        return;
    struct arena *arena = report_arena(report);
    if (wire_workers(report->core, arena, &message.workers, &message.n_workers)) {
        log_error(report->log, "the report has no room for all workers",
                  log_str("node", report->node));
        return;
    }
    (void)gpu_watch_fill(report->gpus, arena, &message); /* the next reading is soon */
    fill_held(report->core, arena, &message);
    figures_fill(report->figures, report->core, loop_now_ms(report->loop), arena, &message);
    outbox_fill(report->outbox, arena, &message);
    bool sent = coordinator_link_report(report->link, &message, on_reported, report);
    if (!sent)
        figures_resend(report->figures);
    if (outbox_packed(report->outbox, sent))
        report->data_sequence = coordinator_link_sequence(report->link);
}

static void on_timer(void *arg)
{
    send_report(arg);
}

void report_at(struct report *report, int64_t at_ms)
{
    if (loop_timer_armed(&report->timer) && report->due_ms <= at_ms)
        return;
    report->due_ms = at_ms;
    loop_timer_set(report->loop, &report->timer, at_ms, on_timer, report);
}

void report_soon(struct report *report)
{
    report_at(report, loop_now_ms(report->loop) + REPORT_SOON_MS);
}

static void on_beat(void *arg);

static void await_beat(struct report *report)
{
    loop_timer_set(report->loop, &report->beat_timer, loop_now_ms(report->loop) + report->beat_ms,
                   on_beat, report);
}

static void on_beat(void *arg)
{
    send_report(arg);
    await_beat(arg);
}

void report_start_beat(struct report *report, int64_t beat_ms)
{
    report->beat_ms = beat_ms;
    await_beat(report);
}

void report_fini(struct report *report)
{
    if (report->loop) {
        loop_timer_cancel(report->loop, &report->beat_timer);
        loop_timer_cancel(report->loop, &report->timer);
    }
    arena_fini(&report->arena);
}
