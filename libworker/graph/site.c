#include "libworker/graph/site.h"

#include <worker/error.h>

#include "libworker/device/cpu.h"
#include "libworker/device/kernels.h"
#include "libworker/device/replay.h"

int site_init(struct site *site, struct error *err)
{
    *site = (struct site){0};
    int rc = cpu_open(&site->own, err);
    if (!rc)
        site_move(site, NULL);
    return rc;
}

static void drop_noted(struct site *site)
{
    numbers_free(site->numbers);
    site->numbers = NULL;
    if (site->device)
        device_memory_free(site->device, site->noted, sizeof(*site->noted));
    site->noted = NULL;
}

void site_move(struct site *site, struct queue *queue)
{
    site_release(site);
    drop_noted(site);
    site->queue = queue ? queue : site->own;
    site->device = queue_device(site->queue);
}

void site_drop(struct site *site)
{
    if (site->queue)
        (void)queue_finish(site->queue, NULL);
    device_memory_free(site->device, site->cache, site->cache_bytes);
    site->cache = NULL;
    site->cache_bytes = 0;
}

void site_release(struct site *site)
{
    if (!site->device)
        return;
    if (site->queue)
        (void)queue_finish(site->queue, NULL);
    host_copies_release(&site->copies);
    device_memory_free(site->device, site->region, site->region_bytes);
    site->region = NULL;
    site->region_bytes = 0;
    feed_release(&site->inputs);
    site_drop(site);
}

void site_fini(struct site *site)
{
    site_release(site);
    drop_noted(site);
    cpu_close(site->own);
    *site = (struct site){0};
}

/* *memory of at least `bytes`. */
static int grow(struct site *site, void **memory, size_t *has, size_t bytes, struct error *err)
{
    if (bytes <= *has)
        return 0;
    host_copies_settle(&site->copies, site->queue);
    int rc = queue_finish(site->queue, err);
    replay_drop(site->queue, NULL);
    device_memory_free(site->device, *memory, *has);
    *memory = NULL;
    *has = 0;
    if (!rc)
        rc = device_memory_new(site->device, bytes, memory, err);
    if (!rc)
        *has = bytes;
    return rc;
}

int site_reserve(struct site *site, size_t bytes, struct error *err)
{
    int rc = site->numbers ? 0 : numbers_new(site->device, GRAPH_NAMED_MAX, &site->numbers, err);
    if (!rc && !site->noted && device_has_kernels(site->device))
        rc = device_memory_new(site->device, sizeof(*site->noted), (void **)&site->noted, err);
    if (rc)
        return rc;
    return grow(site, &site->region, &site->region_bytes, bytes, err);
}

int site_keep(struct site *site, size_t bytes, struct error *err)
{
    return grow(site, &site->cache, &site->cache_bytes, bytes, err);
}

void site_touch(struct site *site)
{
    queue_fill(site->queue, site->region, 0, site->region_bytes);
    (void)queue_finish(site->queue, NULL);
}
