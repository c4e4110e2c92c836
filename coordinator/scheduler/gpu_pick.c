#include "coordinator/scheduler/gpu_pick.h"

#include <string.h>

bool gpu_links_of(const struct node *node, struct gpu_links *ret)
{
    bool known = node->gpus_count > 1;
    ret->gpus = node->gpus_count;
    for (int i = 0; i < node->gpus_count && known; i++)
        known = gpu_links_read(node->gpus[i].links, ret->of[i]) == node->gpus_count;
    return known;
}

/* About its bandwidth in GB/s. */
static int bandwidth(uint8_t link)
{
    enum { NVLINK_GBPS = 25, PIX_GBPS = 24, STEP_GBPS = 4 }; /* each longer path has less */
    if (link == GPU_LINK_UNKNOWN || link == GPU_LINK_SELF)
        return 0;
    if (gpu_link_nvlinks(link))
        return NVLINK_GBPS * gpu_link_nvlinks(link);
    return PIX_GBPS - STEP_GBPS * (GPU_LINK_PIX - link);
}

static bool has(uint64_t set, int slot)
{
    return set >> slot & 1;
}

static uint64_t run_of(int slot, int each)
{
    return (each < 64 ? (UINT64_C(1) << each) - 1 : UINT64_MAX) << slot;
}

struct ring { /* of points: slots, or the runs of workers */
    int count;
    uint8_t links[GPU_LINKS_MAX][GPU_LINKS_MAX];
    int order[GPU_LINKS_MAX], best[GPU_LINKS_MAX];
    int slowest, sum; /* of `best` */
};

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* Try each order that begins with order[0 .. count): the first of equal ones stays. */
static void search_ring(struct ring *ring, int count, int slowest, int sum)
{
    int last = ring->order[count - 1];
    if (slowest < ring->slowest)
        return;
    if (count == ring->count) {
        uint8_t back = ring->links[last][ring->order[0]];
        slowest = least(slowest, back);
        sum += bandwidth(back);
        if (slowest > ring->slowest || (slowest == ring->slowest && sum > ring->sum)) {
            ring->slowest = slowest;
            ring->sum = sum;
            memcpy(ring->best, ring->order, sizeof(ring->best));
        }
        return;
    }
    for (int i = count; i < ring->count; i++) { /* what is left stays ascending */
        int next = ring->order[i];
        memmove(&ring->order[count + 1], &ring->order[count], sizeof(int) * (size_t)(i - count));
        ring->order[count] = next;
        search_ring(ring, count + 1, least(slowest, ring->links[last][next]),
                    sum + bandwidth(ring->links[last][next]));
        memmove(&ring->order[count], &ring->order[count + 1], sizeof(int) * (size_t)(i - count));
        ring->order[i] = next;
    }
}

/* From each point to the nearest that is left. */
static void follow_nearest(struct ring *ring)
{
    for (int count = 1; count < ring->count; count++) {
        int last = ring->order[count - 1], nearest = count;
        for (int i = count + 1; i < ring->count; i++)
            if (ring->links[last][ring->order[i]] > ring->links[last][ring->order[nearest]])
                nearest = i;
        int next = ring->order[nearest];
        memmove(&ring->order[count + 1], &ring->order[count],
                sizeof(int) * (size_t)(nearest - count));
        ring->order[count] = next;
    }
    ring->slowest = GPU_LINK_SELF;
    for (int i = 0; i < ring->count; i++)
        ring->slowest =
            least(ring->slowest, ring->links[ring->order[i]][ring->order[(i + 1) % ring->count]]);
    memcpy(ring->best, ring->order, sizeof(ring->best));
}

/* `best` gets the order of the points. */
static void find_ring(struct ring *ring)
{
    for (int i = 0; i < ring->count; i++)
        ring->order[i] = ring->best[i] = i;
    ring->slowest = ring->sum = -1;
    if (ring->count <= GPU_PICK_EXACT_MAX)
        search_ring(ring, 1, GPU_LINK_SELF, 0);
    else
        follow_nearest(ring);
}

struct search {
    const struct gpu_links *links;
    const struct gpu_request *request;
    int slots[GPU_LINKS_MAX]; /* first ones of the workers */
    struct {
        int slowest, within, left;
        int slots[GPU_LINKS_MAX];
    } best;
};

static int bandwidth_within(const struct gpu_links *links, uint64_t set)
{
    int sum = 0;
    for (int i = 0; i < links->gpus; i++)
        for (int j = i + 1; j < links->gpus; j++)
            if (has(set, i) && has(set, j))
                sum += bandwidth(links->of[i][j]);
    return sum;
}

static int slowest_of(const struct gpu_links *links, uint64_t set)
{
    struct ring ring = {.count = 0};
    int slots[GPU_LINKS_MAX] = {0};
    for (int i = 0; i < links->gpus; i++)
        if (has(set, i))
            slots[ring.count++] = i;
    for (int i = 0; i < ring.count; i++)
        for (int j = 0; j < ring.count; j++)
            ring.links[i][j] = links->of[slots[i]][slots[j]];
    find_ring(&ring);
    return ring.slowest;
}

/* Keep the workers' slots if they are better than all before. */
static void compare(struct search *search)
{
    const struct gpu_request *request = search->request;
    uint64_t set = 0;
    for (int i = 0; i < request->workers; i++)
        set |= run_of(search->slots[i], request->each);
    int slowest = slowest_of(search->links, set);
    int within = bandwidth_within(search->links, set);
    int left = bandwidth_within(search->links, request->free & ~set);
    bool better = slowest > search->best.slowest;
    if (slowest == search->best.slowest)
        better = within > search->best.within ||
                 (within == search->best.within && left > search->best.left);
    if (!better)
        return;
    search->best.slowest = slowest;
    search->best.within = within;
    search->best.left = left;
    memcpy(search->best.slots, search->slots, sizeof(search->slots));
}

static bool is_free(const struct search *search, int slot, uint64_t taken)
{
    int each = search->request->each;
    uint64_t run = slot + each <= search->links->gpus ? run_of(slot, each) : 0;
    return run && (run & search->request->free & ~taken) == run;
}

/* All choices, those of the first slots first. */
static void try_all(struct search *search, int count, int from)
{
    if (count == search->request->workers) {
        compare(search);
        return;
    }
    for (int slot = from; slot < search->links->gpus; slot++) {
        if (!is_free(search, slot, 0))
            continue;
        search->slots[count] = slot;
        try_all(search, count + 1, slot + search->request->each);
    }
}

/* From each run, add the run that has the most bandwidth to those before. */
static void try_greedily(struct search *search, int first)
{
    int each = search->request->each;
    uint64_t taken = run_of(first, each);
    search->slots[0] = first;
    for (int count = 1; count < search->request->workers; count++) {
        int best = -1, most = -1;
        for (int slot = 0; slot < search->links->gpus; slot++) {
            int sum = is_free(search, slot, taken)
                          ? bandwidth_within(search->links, taken | run_of(slot, each))
                          : -1;
            best = sum > most ? slot : best;
            most = sum > most ? sum : most;
        }
        if (best < 0)
            return;
        search->slots[count] = best;
        taken |= run_of(best, each);
    }
    compare(search);
}

static uint8_t nearest_link(const struct gpu_links *links, int a, int b, int each)
{
    uint8_t nearest = GPU_LINK_UNKNOWN;
    for (int i = a; i < a + each; i++)
        for (int j = b; j < b + each; j++)
            nearest = links->of[i][j] > nearest ? links->of[i][j] : nearest;
    return nearest;
}

/* Local ranks in the order of the best ring. */
static void order_workers(const struct search *search, int *ret_slots)
{
    const struct gpu_request *request = search->request;
    struct ring ring = {.count = request->workers};
    int slots[GPU_LINKS_MAX];
    int count = 0;
    for (int slot = 0; slot < search->links->gpus; slot++) /* ascending */
        for (int i = 0; i < request->workers; i++)
            if (search->best.slots[i] == slot)
                slots[count++] = slot;
    for (int i = 0; i < count; i++)
        for (int j = 0; j < count; j++)
            ring.links[i][j] = nearest_link(search->links, slots[i], slots[j], request->each);
    find_ring(&ring);
    for (int i = 0; i < count; i++)
        ret_slots[i] = slots[ring.best[i]];
}

static bool links_differ(const struct gpu_links *links, uint64_t set)
{
    int first = -1;
    for (int i = 0; i < links->gpus; i++)
        for (int j = i + 1; j < links->gpus; j++) {
            if (!has(set, i) || !has(set, j))
                continue;
            first = first < 0 ? links->of[i][j] : first;
            if (links->of[i][j] != first)
                return true;
        }
    return false;
}

bool gpu_pick(const struct gpu_links *links, const struct gpu_request *request, int *ret_slots)
{
    struct search search = {.links = links, .request = request, .best = {.slowest = -1}};
    if (request->workers * request->each > links->gpus || !links_differ(links, request->free))
        return false;
    if (__builtin_popcountll(request->free) <= GPU_PICK_EXACT_MAX)
        try_all(&search, 0, 0);
    else
        for (int slot = 0; slot < links->gpus; slot++)
            if (is_free(&search, slot, 0))
                try_greedily(&search, slot);
    if (search.best.slowest < 0)
        return false;
    order_workers(&search, ret_slots);
    return true;
}

uint8_t gpu_ring_slowest(const struct gpu_links *links, const int *slots, int count)
{
    uint8_t slowest = GPU_LINK_SELF;
    for (int i = 0; i < count && count > 1; i++) {
        uint8_t link = links->of[slots[i]][slots[(i + 1) % count]];
        slowest = link < slowest ? link : slowest;
    }
    return slowest;
}
