#include "agent/link/report_number.h"

#include "common/base/str.h"

/* The pause for a checkpoint that a step ends; the coordinator charges it to the ledger. */
static const char pause_name[] = "checkpoint_seconds";

static void add_sample(struct reporter *r, const struct agent_worker *worker, const char *name,
                       double value, uint64_t step)
{
    struct report_socket *all = r->all;
    struct metric metric = {.generation = reporter_generation(worker),
                            .step = step,
                            .wall_ms = all->env->clock.wall_ms(all->env->clock.self),
                            .value = value};
    if (!report_rate_take(&r->samples_rate, loop_now_ms(all->loop), REPORT_SAMPLES_PER_S,
                          REPORT_SAMPLES_BURST)) {
        reporter_drop(r, 1);
        return;
    }
    (void)str_copy(metric.job, sizeof(metric.job), r->key.job);
    (void)str_copy(metric.name, sizeof(metric.name), name);
    all->events.metric(all->events.arg, &metric);
}

void reporter_flush(struct reporter *r)
{
    struct error err = {0};
    const struct agent_worker *worker = reporter_worker(r, &err);
    loop_timer_cancel(r->all->loop, &r->beat);
    if (!worker || !r->dirty)
        return;
    if (r->saved_ms > 0 && worker->assignment->rank == 0)
        add_sample(r, worker, pause_name, (double)r->saved_ms / 1000, r->step);
    r->saved_ms = 0;
    r->dirty = false;
    r->sent_ms = loop_now_ms(r->all->loop);
    const struct worker_memory *memory = &worker->memory; /* with what earlier agents knew */
    struct agent_event event = {
        .kind = AGENT_EVENT_PROGRESS,
        .key = r->key,
        .progress = {.generation = reporter_generation(worker),
                     .step = r->stepped ? r->step : memory->step,
                     .total_steps = r->total_steps ? r->total_steps : memory->total_steps,
                     .dropped = r->dropped,
                     .reports = true}};
    r->all->events.event(r->all->events.arg, &event);
}

static void on_beat(void *arg)
{
    reporter_flush(arg);
}

void reporter_flush_soon(struct reporter *r)
{
    struct loop *loop = r->all->loop;
    int64_t now_ms = loop_now_ms(loop), due_ms = r->sent_ms + REPORT_BEAT_MS;
    if (!r->dirty || loop_timer_armed(&r->beat))
        return;
    if (!r->sent_ms || due_ms <= now_ms)
        reporter_flush(r);
    else
        loop_timer_set(loop, &r->beat, due_ms, on_beat, r);
}

void reporter_saves(struct reporter *r, bool begins)
{
    int64_t now_ms = loop_now_ms(r->all->loop);
    if (r->saves_since_ms)
        r->saved_ms += now_ms - r->saves_since_ms;
    r->saves_since_ms = begins ? now_ms : 0;
}

void reporter_step(struct reporter *r, const struct report_line *line)
{
    if (r->saves_since_ms) /* steps go on while it is saved: training did not wait */
        r->saves_since_ms = 0;
    r->step = line->step;
    r->stepped = true;
    if (line->has_total)
        r->total_steps = line->total_steps;
    r->dirty = true;
    reporter_flush_soon(r);
}

void reporter_samples(struct reporter *r, const struct agent_worker *worker,
                      const struct report_line *line)
{
    uint64_t step = line->has_step ? line->step : r->step;
    for (int i = 0; worker->assignment->rank == 0 && i < line->samples_count; i++)
        add_sample(r, worker, line->samples[i].name, line->samples[i].value, step);
}
