/* The GPUs of this node, read every few seconds on a thread beside the loop, because NVML may block
 * while a GPU hangs. Reports carry the readings. Loop thread, owned by the agent.
 */
#ifndef AGENT_GPU_WATCH_H
#define AGENT_GPU_WATCH_H

#include "agent/device/inventory.h"
#include "common/base/arena.h"
#include "common/base/log.h"
#include "common/loop/loop.h"
#include "proto/node.pb-c.h"

enum { GPU_WATCH_EVERY_MS = 5000 };

struct gpu_watch;

/* NULL if the inventory has no GPUs, or there is no memory: nothing is reported then. The loop and
 * the log are borrowed for life, the inventory is copied. */
struct gpu_watch *gpu_watch_new(struct loop *loop, const struct inventory *inventory,
                                const struct log *log);
void gpu_watch_free(struct gpu_watch *watch); /* never waits for a reading; NULL is fine */

/* Add the latest reading of each slot's GPU, unless an earlier report had it. False: the arena is
 * full. NULL is fine. */
bool gpu_watch_fill(struct gpu_watch *watch, struct arena *arena, Muster__NodeReport *report);

#endif
