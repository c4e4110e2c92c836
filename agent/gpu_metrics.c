#include "agent/gpu_metrics.h"

#include <string.h>

#include "common/base/str.h"

/* Sums over the GPUs of one job. */
struct means {
    const struct agent_worker *first; /* of its workers; NULL: none yet */
    uint64_t step;
    double used, memory; /* percent */
    int used_count, memory_count;
};

static void add_slot(struct means *means, const struct gpu_watch *watch, uint32_t slot)
{
    struct gpu_reading now;
    uint64_t bytes;
    if (!gpu_watch_reading(watch, slot, &now, &bytes))
        return;
    if (now.used_percent >= 0) {
        means->used += now.used_percent;
        means->used_count++;
    }
    if (now.memory_used_bytes >= 0 && bytes > 0) {
        means->memory += 100.0 * (double)now.memory_used_bytes / (double)bytes;
        means->memory_count++;
    }
}

static void add_worker(struct means *means, const struct gpu_watch *watch,
                       const struct agent_worker *worker)
{
    const struct assignment *a = worker->assignment;
    if (!a || !worker->process || a->node_rank >= GPU_METRICS_NODES)
        return;
    means->first = means->first ? means->first : worker;
    means->step = means->step > worker->memory.step ? means->step : worker->memory.step;
    for (uint32_t slot = a->slot; slot < a->slot + a->slots; slot++)
        add_slot(means, watch, slot);
}

static void send_mean(const struct means *means, const char *what, double mean,
                      const struct gpu_metrics_sink *sink)
{
    const struct assignment *a = means->first->assignment;
    struct metric metric = {.generation = a->generation, .step = means->step, .value = mean};
    (void)str_copy(metric.job, sizeof(metric.job), means->first->key.job);
    (void)str_printf(metric.name, sizeof(metric.name), "gpu.%s.node%u", what, a->node_rank);
    sink->metric(sink->arg, &metric);
}

static void send_means(const struct means *means, const struct gpu_metrics_sink *sink)
{
    if (means->first && means->used_count)
        send_mean(means, "used", means->used / means->used_count, sink);
    if (means->first && means->memory_count)
        send_mean(means, "memory", means->memory / means->memory_count, sink);
}

void gpu_metrics(const struct gpu_watch *watch, const struct agent_core *core,
                 const struct gpu_metrics_sink *sink)
{
    const struct agent_worker *worker = agent_core_first(core);
    while (worker) { /* workers of one job follow each other */
        const char *job = worker->key.job;
        struct means means = {.first = NULL};
        for (; worker && strcmp(worker->key.job, job) == 0; worker = worker->next)
            add_worker(&means, watch, worker);
        send_means(&means, sink);
    }
}
