#include "agent/link/report_number.h"

#include <math.h>

#include "agent/link/report_stacks.h"
#include "common/base/str.h"

enum { REPORT_WATCH_MS = 1000, MEAN_PARTS = 8 };

/* The pause for a checkpoint that a step ends; the coordinator charges it to the ledger. */
static const char pause_name[] = "checkpoint_seconds";

/* Of rank 0 it is a sample of the job's series as well. */
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
    all->events.number(all->events.arg, &r->key, name, value);
    if (worker->assignment->rank != 0)
        return;
    (void)str_copy(metric.job, sizeof(metric.job), r->key.job);
    (void)str_copy(metric.name, sizeof(metric.name), name);
    all->events.metric(all->events.arg, &metric);
}

/* A pause that the program has explained. */
static bool is_busy(const struct reporter *r, int64_t now_ms)
{
    bool saves = r->saves_since_ms && now_ms < r->saves_since_ms + REPORT_SAVE_MS;
    return now_ms < r->busy_until_ms || saves;
}

static const struct worker_wait *quiet_wait(const struct reporter *r, int64_t now_ms,
                                            struct worker_wait *ret)
{
    if (!r->quiet)
        return NULL;
    *ret = (struct worker_wait){.waited_ms = (uint32_t)(now_ms - r->stepped_ms)};
    (void)str_copy(ret->operation, sizeof(ret->operation), r->where);
    return ret;
}

static int64_t quiet_limit_ms(const struct reporter *r)
{
    int64_t steps_ms = r->typical_ms * REPORT_QUIET_STEPS;
    return steps_ms > REPORT_QUIET_MS ? steps_ms : REPORT_QUIET_MS;
}

/* A worker that completed steps completes none: request its stacks, and report the silence to the
 * core each second while it lasts. */
static void on_watch(void *arg)
{
    struct reporter *r = arg;
    struct loop *loop = r->all->loop;
    struct error err = {0};
    int64_t now_ms = loop_now_ms(loop);
    const struct agent_worker *worker = reporter_worker(r, &err);
    if (!worker || worker->state == AGENT_WORKER_STOPPING)
        return;
    if (is_busy(r, now_ms)) {
        r->stepped_ms = now_ms; /* the time of its next step begins after this */
        loop_timer_set(loop, &r->watch, now_ms + REPORT_WATCH_MS, on_watch, r);
        return;
    }
    int64_t limit_ms = r->stepped_ms + quiet_limit_ms(r), next_ms = now_ms + REPORT_WATCH_MS;
    bool began = !r->quiet && now_ms >= limit_ms;
    if (began && !report_stacks_take(r)) {
        r->where[0] = '\0';
        r->all->events.no_stacks(r->all->events.arg, worker);
    }
    r->quiet = r->quiet || began;
    r->dirty = r->dirty || r->quiet;
    bool soon = !r->quiet && limit_ms < next_ms; /* looked at when it is silent, not later */
    loop_timer_set(loop, &r->watch, soon ? limit_ms : next_ms, on_watch, r);
    if (r->quiet)
        reporter_flush(r);
}

void reporter_flush(struct reporter *r)
{
    struct error err = {0};
    const struct agent_worker *worker = reporter_worker(r, &err);
    int64_t now_ms = loop_now_ms(r->all->loop);
    loop_timer_cancel(r->all->loop, &r->beat);
    if (!worker || !r->dirty)
        return;
    if (r->saved_ms > 0)
        add_sample(r, worker, pause_name, (double)r->saved_ms / 1000, r->step);
    r->saved_ms = 0;
    r->dirty = false;
    r->sent_ms = now_ms;
    struct worker_wait wait;
    const struct worker_memory *memory = &worker->memory; /* with what earlier agents knew */
    struct agent_event event = {
        .kind = AGENT_EVENT_PROGRESS,
        .key = r->key,
        .progress = {.generation = reporter_generation(worker),
                     .step = r->stepped ? r->step : memory->step,
                     .total_steps = r->total_steps ? r->total_steps : memory->total_steps,
                     .dropped = r->dropped,
                     .busy = is_busy(r, now_ms),
                     .wait = quiet_wait(r, now_ms, &wait),
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
    r->dirty = true;
}

void reporter_pause(struct reporter *r, int64_t for_ms)
{
    int64_t now_ms = loop_now_ms(r->all->loop);
    if (!for_ms && r->busy_until_ms > now_ms)
        r->stepped_ms = now_ms;
    r->busy_until_ms = for_ms ? now_ms + for_ms : 0;
    r->quiet = false;
    r->dirty = true;
}

/* A new step's weight in the mean is 1/MEAN_PARTS; pauses that were explained do not count. */
static void count_time(struct reporter *r, const struct report_line *line)
{
    int64_t now_ms = loop_now_ms(r->all->loop), each_ms = now_ms - r->stepped_ms;
    bool counts = r->stepped && !r->busy_until_ms && !r->saved_ms;
    if (counts)
        r->typical_ms += (each_ms - r->typical_ms) / (r->typical_ms ? MEAN_PARTS : 1);
    r->timed_ms += counts ? each_ms : 0;
    r->waited_s += isnan(line->waited_s) ? 0 : line->waited_s;
    struct pace_mark mark = {.step = line->step,
                             .seconds = (double)r->timed_ms / 1000,
                             .waited_seconds = isnan(line->waited_s) ? NAN : r->waited_s,
                             .fresh = !counts};
    r->all->events.stepped(r->all->events.arg, &r->key, &mark);
    r->stepped_ms = now_ms;
    r->busy_until_ms = 0;
    r->quiet = false;
    if (!loop_timer_armed(&r->watch))
        loop_timer_set(r->all->loop, &r->watch, now_ms + REPORT_WATCH_MS, on_watch, r);
}

void reporter_step(struct reporter *r, const struct report_line *line)
{
    if (r->saves_since_ms) /* steps go on while it is saved: training did not wait */
        r->saves_since_ms = 0;
    count_time(r, line);
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
    for (int i = 0; i < line->samples_count; i++)
        add_sample(r, worker, line->samples[i].name, line->samples[i].value, step);
}
