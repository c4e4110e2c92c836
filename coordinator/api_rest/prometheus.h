/* The coordinator's state as Prometheus text (exposition format 0.0.4). Pure. */
#ifndef API_REST_PROMETHEUS_H
#define API_REST_PROMETHEUS_H

#include <stdbool.h>

#include "common/base/buf.h"

struct cluster;
struct service_stats;

/* `tenant` not NULL: what its members may know. */
int prometheus_render(const struct cluster *cluster, const struct service_stats *stats, bool ready,
                      const char *tenant, struct buf *out);

#endif
