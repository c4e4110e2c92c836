/* One measurement of a worker for the coordinator: proto MetricSample in the agent's types. */
#ifndef AGENT_METRIC_H
#define AGENT_METRIC_H

#include <stdint.h>

#include "agent/core/launch.h"
#include "common/base/name.h"

struct metric {
    char job[JOB_ID_MAX + 1];
    char name[METRIC_NAME_MAX + 1];
    uint64_t generation, step;
    int64_t wall_ms;
    double value;
};

#endif
