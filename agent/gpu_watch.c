#include "agent/gpu_watch.h"

#include <stdlib.h>
#include <string.h>

#include "agent/device/nvml.h"

struct gpu_watch {
    struct loop *loop;
    const struct log *log;
    void (*on_read)(void *arg, const struct gpu_watch_read *read);
    void *arg;
    struct loop_timer timer;
    int64_t regular_ms; /* when the next regular reading is due */
    int64_t links_ms;   /* and the next of links */
    struct gpu_watch_read now;
    struct inventory_gpu gpus[INVENTORY_GPUS_MAX];
    int count;
    struct nvml *nvml; /* the reading thread's, opened by the first reading */
    struct {
        struct gpu_reading reading;
        bool there;
    } next[INVENTORY_GPUS_MAX], latest[INVENTORY_GPUS_MAX]; /* `next` is the reading thread's */
    struct {
        struct inventory_gpu gpus[INVENTORY_GPUS_MAX]; /* with these links */
        bool due, read, differ;
    } links;                 /* the reading thread's; due: set before */
    bool fresh, links_fresh; /* no report had `latest`, the links */
    bool reading;            /* a reading is under way */
    bool soon;               /* another one is to follow it */
    bool orphaned;           /* it frees the watch */
};

static void drop(struct gpu_watch *watch)
{
    nvml_close(watch->nvml);
    free(watch);
}

static bool is_troubled(const struct gpu_watch *watch)
{
    bool troubled = false;
    for (int i = 0; i < watch->count; i++)
        troubled =
            troubled || watch->next[i].there != watch->latest[i].there ||
            (watch->next[i].there && watch->next[i].reading.xid != watch->latest[i].reading.xid);
    return troubled;
}

static void read_links(struct gpu_watch *watch)
{
    bool lost[INVENTORY_GPUS_MAX] = {false};
    for (int i = 0; i < watch->count; i++)
        lost[i] = !watch->next[i].there;
    memcpy(watch->links.gpus, watch->gpus, sizeof(watch->gpus));
    watch->links.differ = nvml_links_again(watch->nvml, watch->links.gpus, watch->count, lost);
}

static void read_all(void *arg)
{
    struct gpu_watch *watch = arg;
    if (!watch->nvml)
        watch->nvml = nvml_open(NULL);
    for (int i = 0; i < watch->count; i++)
        watch->next[i].there =
            watch->nvml && nvml_read(watch->nvml, &watch->gpus[i], &watch->next[i].reading);
    watch->links.read = watch->nvml && (watch->links.due || is_troubled(watch));
    if (watch->links.read)
        read_links(watch);
}

/* What an administrator has to hear of, once. */
static void tell_changes(const struct gpu_watch *watch)
{
    for (int i = 0; i < watch->count; i++) {
        const char *uuid = watch->gpus[i].uuid;
        bool there = watch->next[i].there;
        int xid = watch->next[i].reading.xid;
        if (!there && watch->latest[i].there)
            log_warn(watch->log, "a GPU cannot be read any more", log_str("gpu", uuid));
        if (there && xid && xid != watch->latest[i].reading.xid)
            log_warn(watch->log, "the driver reported a critical error of a GPU (Xid)",
                     log_str("gpu", uuid), log_int("xid", xid));
    }
}

static void take_links(struct gpu_watch *watch)
{
    if (watch->links.differ)
        log_warn(watch->log, "the links between GPUs have changed");
    memcpy(watch->gpus, watch->links.gpus, sizeof(watch->gpus));
    watch->links_fresh = true;
}

static void begin_reading(void *arg);

static void set_timer(struct gpu_watch *watch)
{
    int64_t now_ms = loop_now_ms(watch->loop), at_ms = watch->regular_ms;
    if (watch->soon && now_ms + GPU_WATCH_SOON_MS < at_ms)
        at_ms = now_ms + GPU_WATCH_SOON_MS;
    loop_timer_set(watch->loop, &watch->timer, at_ms, begin_reading, watch);
}

void gpu_watch_soon(struct gpu_watch *watch)
{
    if (!watch || watch->soon)
        return;
    watch->soon = true;
    if (!watch->reading)
        set_timer(watch);
}

static void on_read(void *arg)
{
    struct gpu_watch *watch = arg;
    watch->reading = false;
    if (watch->orphaned) {
        drop(watch);
        return;
    }
    tell_changes(watch);
    memcpy(watch->latest, watch->next, sizeof(watch->latest));
    watch->fresh = true;
    if (watch->links.read)
        take_links(watch);
    watch->on_read(watch->arg, &watch->now);
    set_timer(watch);
}

static void begin_reading(void *arg)
{
    struct gpu_watch *watch = arg;
    int64_t now_ms = loop_now_ms(watch->loop);
    watch->now = (struct gpu_watch_read){now_ms, now_ms >= watch->regular_ms};
    if (watch->now.regular)
        watch->regular_ms = now_ms + GPU_WATCH_EVERY_MS;
    watch->links.due = watch->now.regular && now_ms >= watch->links_ms;
    if (watch->links.due)
        watch->links_ms = now_ms + GPU_WATCH_LINKS_MS;
    watch->soon = false;
    watch->reading = true;
    loop_offload(watch->loop, read_all, on_read, watch);
}

struct gpu_watch *gpu_watch_new(const struct gpu_watch_options *options)
{
    const struct inventory *inventory = options->inventory;
    struct gpu_watch *watch = inventory->gpus_count ? calloc(1, sizeof(*watch)) : NULL;
    if (!watch)
        return NULL;
    watch->loop = options->loop;
    watch->log = options->log;
    watch->on_read = options->on_read;
    watch->arg = options->arg;
    watch->count = inventory->gpus_count;
    memcpy(watch->gpus, inventory->gpus, sizeof(watch->gpus));
    begin_reading(watch);
    return watch;
}

void gpu_watch_free(struct gpu_watch *watch)
{
    if (!watch)
        return;
    loop_timer_cancel(watch->loop, &watch->timer);
    watch->orphaned = true;
    if (!watch->reading)
        drop(watch);
}

int gpu_watch_count(const struct gpu_watch *watch)
{
    return watch ? watch->count : 0;
}

bool gpu_watch_reading(const struct gpu_watch *watch, uint32_t slot, struct gpu_reading *ret,
                       uint64_t *ret_memory_bytes)
{
    if (slot >= (uint32_t)watch->count || !watch->latest[slot].there)
        return false;
    *ret = watch->latest[slot].reading;
    *ret_memory_bytes = watch->gpus[slot].memory_bytes;
    return true;
}

void gpu_watch_links(const struct gpu_watch *watch, struct inventory *inventory)
{
    for (int i = 0; watch && i < watch->count && i < inventory->gpus_count; i++) {
        inventory->gpus[i].nvlinks = watch->gpus[i].nvlinks;
        inventory->gpus[i].nvswitch = watch->gpus[i].nvswitch;
        memcpy(inventory->gpus[i].links, watch->gpus[i].links, sizeof(watch->gpus[i].links));
    }
}

static void fill(Muster__GpuReading *to, const struct gpu_reading *from)
{
    if (from->used_percent >= 0) {
        to->used_percent_known_case = MUSTER__GPU_READING__USED_PERCENT_KNOWN_USED_PERCENT;
        to->used_percent = (uint32_t)from->used_percent;
    }
    to->memory_used_bytes = from->memory_used_bytes > 0 ? (uint64_t)from->memory_used_bytes : 0;
    to->temperature_c = from->temperature_c > 0 ? (uint32_t)from->temperature_c : 0;
    to->power_w = from->power_w > 0 ? (uint32_t)from->power_w : 0;
    to->ecc_errors = from->ecc_errors > 0 ? (uint64_t)from->ecc_errors : 0;
    to->xid = (uint32_t)from->xid;
    to->slowed_by_power = from->slowed & GPU_SLOWED_POWER;
    to->slowed_by_heat = from->slowed & GPU_SLOWED_HEAT;
}

static bool fill_links(struct gpu_watch *watch, struct arena *arena, Muster__NodeReport *report)
{
    size_t count = (size_t)watch->count;
    Muster__GpuLinks *all = arena_array(arena, count, sizeof(*all));
    report->gpu_links = arena_pointers(arena, count);
    if (!all || !report->gpu_links)
        return false;
    for (size_t i = 0; i < count; i++) {
        const struct inventory_gpu *gpu = &watch->gpus[i];
        char row[GPU_LINKS_TEXT_BYTES];
        gpu_links_write(gpu->links, watch->count, row);
        muster__gpu_links__init(&all[i]);
        all[i].links = arena_strdup(arena, row);
        all[i].nvswitch = gpu->nvswitch;
        if (gpu->nvlinks >= 0) {
            all[i].nvlinks_known_case = MUSTER__GPU_LINKS__NVLINKS_KNOWN_NVLINKS;
            all[i].nvlinks = (uint32_t)gpu->nvlinks;
        }
        if (!all[i].links)
            return false;
        report->gpu_links[i] = &all[i];
    }
    report->n_gpu_links = count;
    watch->links_fresh = false;
    return true;
}

bool gpu_watch_fill(struct gpu_watch *watch, struct arena *arena, Muster__NodeReport *report)
{
    if (!watch || !watch->fresh)
        return true;
    size_t count = (size_t)watch->count;
    Muster__GpuReading *all = arena_array(arena, count, sizeof(*all));
    report->gpus = arena_pointers(arena, count);
    if (!all || !report->gpus)
        return false;
    for (size_t i = 0; i < count; i++) {
        muster__gpu_reading__init(&all[i]);
        all[i].lost = !watch->latest[i].there;
        if (watch->latest[i].there)
            fill(&all[i], &watch->latest[i].reading);
        report->gpus[i] = &all[i];
    }
    report->n_gpus = count;
    watch->fresh = false;
    return !watch->links_fresh || fill_links(watch, arena, report);
}
