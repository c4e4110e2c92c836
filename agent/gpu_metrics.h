/* What the GPUs of a job do, as series of the job beside its loss. "gpu.used.nodeN" is the percent
 * of the time with a kernel running, "gpu.memory.nodeN" that of their memory. Both are means over
 * the job's GPUs on its N-th node, for the first GPU_METRICS_NODES of them. Loop thread, no state.
 */
#ifndef AGENT_GPU_METRICS_H
#define AGENT_GPU_METRICS_H

#include "agent/core/metric.h"
#include "agent/core/step.h"
#include "agent/gpu_watch.h"

enum { GPU_METRICS_NODES = 8 };

struct gpu_metrics_sink {
    void *arg;
    void (*metric)(void *arg, const struct metric *metric);
};

/* A sample of each for every job with running workers here, at the step they are at. The
 * coordinator adds the time. */
void gpu_metrics(const struct gpu_watch *watch, const struct agent_core *core,
                 const struct gpu_metrics_sink *sink);

#endif
