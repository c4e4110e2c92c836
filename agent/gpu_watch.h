/* The GPUs of this node, read every few seconds on a thread beside the loop, because NVML may block
 * while a GPU hangs. Reports carry the readings. Loop thread, owned by the agent.
 *
 * How they are connected is read once a minute: for 8 GPUs with 18 NVLinks each NVML is called 300
 * to 450 times, and 60 times for all else. The driver reports a link that fails by an Xid, so
 * links are also read at once when a GPU has another Xid, is lost, or is found again.
 */
#ifndef AGENT_GPU_WATCH_H
#define AGENT_GPU_WATCH_H

#include "agent/device/inventory.h"
#include "common/base/arena.h"
#include "common/base/log.h"
#include "common/loop/loop.h"
#include "proto/node.pb-c.h"

enum { GPU_WATCH_EVERY_MS = 5000, GPU_WATCH_SOON_MS = 200, GPU_WATCH_LINKS_MS = 60000 };

struct gpu_watch;

struct gpu_watch_read {
    int64_t begun_ms; /* of the loop's clock */
    bool regular;     /* not asked for by gpu_watch_soon */
};

struct gpu_watch_options {
    struct loop *loop;                                             /* borrowed for life */
    const struct log *log;                                         /* borrowed for life */
    const struct inventory *inventory;                             /* copied */
    void (*on_read)(void *arg, const struct gpu_watch_read *read); /* after each reading */
    void *arg;
};

/* NULL if the inventory has no GPUs, or there is no memory: nothing is reported then. */
struct gpu_watch *gpu_watch_new(const struct gpu_watch_options *options);
void gpu_watch_free(struct gpu_watch *watch); /* never waits for a reading; NULL is fine */

/* Read them GPU_WATCH_SOON_MS from now, beside the regular readings. NULL is fine. */
void gpu_watch_soon(struct gpu_watch *watch);

/* Slots that are GPUs: of NULL none. */
int gpu_watch_count(const struct gpu_watch *watch);

/* The latest reading of a slot's GPU, and all its memory. False: there is none, or it is lost. */
bool gpu_watch_reading(const struct gpu_watch *watch, uint32_t slot, struct gpu_reading *ret,
                       uint64_t *ret_memory_bytes);

/* Have the latest links there, of the inventory that the watch was made with. NULL is fine. */
void gpu_watch_links(const struct gpu_watch *watch, struct inventory *inventory);

/* Add the latest readings of each slot's GPU and its links, unless an earlier report had them.
 * False: the arena is full. NULL is fine. */
bool gpu_watch_fill(struct gpu_watch *watch, struct arena *arena, Muster__NodeReport *report);

#endif
