/* One question to the agent of this worker at MUSTER_REPORT_SOCKET (docs/report.md). Blocks for a
 * bounded time; no network, no token. */
#ifndef CLI_REPORT_SOCKET_H
#define CLI_REPORT_SOCKET_H

#include <stdint.h>

#include "common/base/arena.h"
#include "common/base/error.h"
#include "common/base/tree.h"

/* Send `line` (a JSON object with "id": 1, without a line end) and wait for its answer. An agent
 * that is being restarted is tried again until `timeout_ms` is over.
 *
 * Returns 0 with the answer, or the agent's error. E_UNAVAILABLE: no agent answers there;
 * E_DEADLINE_EXCEEDED: it accepts the line and does not answer it. */
int report_ask(const char *path, const char *line, int64_t timeout_ms, struct arena *arena,
               struct tree **ret, struct error *err);

#endif
