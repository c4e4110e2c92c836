#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

#include "common/base/rng.h"
#include "coordinator/scheduler/gpu_pick.h"

/* Every choice and every ring is tried here, without the shortcuts of gpu_pick.c. */

enum { GPUS = 8 };

static int bandwidth(uint8_t link)
{
    static const int of_paths[] = {[GPU_LINK_SYS] = 8,
                                   [GPU_LINK_NODE] = 12,
                                   [GPU_LINK_PHB] = 16,
                                   [GPU_LINK_PXB] = 20,
                                   [GPU_LINK_PIX] = 24};
    if (link == GPU_LINK_UNKNOWN || link == GPU_LINK_SELF)
        return 0;
    return link > GPU_LINK_PIX ? 25 * (link - GPU_LINK_NVLINK) : of_paths[link];
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

struct rings { /* of some points: the best one from the first point on */
    uint8_t links[GPUS][GPUS];
    int count, slowest, sum;
    int order[GPUS], best[GPUS];
};

static void try_rings(struct rings *rings, int count, unsigned used)
{
    if (count == rings->count) {
        int slowest = GPU_LINK_SELF, sum = 0;
        for (int i = 0; i < count; i++) {
            uint8_t link = rings->links[rings->order[i]][rings->order[(i + 1) % count]];
            slowest = least(slowest, link);
            sum += bandwidth(link);
        }
        if (slowest > rings->slowest || (slowest == rings->slowest && sum > rings->sum)) {
            rings->slowest = slowest;
            rings->sum = sum;
            memcpy(rings->best, rings->order, sizeof(rings->best));
        }
        return;
    }
    for (int i = 0; i < rings->count; i++)
        if (!(used >> i & 1)) {
            rings->order[count] = i;
            try_rings(rings, count + 1, used | 1u << i);
        }
}

static void best_ring(struct rings *rings)
{
    rings->slowest = rings->sum = -1;
    rings->order[0] = 0;
    try_rings(rings, 1, 1);
}

static int slots_of(unsigned set, int ret[GPUS])
{
    int count = 0;
    for (int i = 0; i < GPUS; i++)
        if (set >> i & 1)
            ret[count++] = i;
    return count;
}

static int within(const struct gpu_links *links, unsigned set)
{
    int sum = 0;
    for (int i = 0; i < GPUS; i++)
        for (int j = 0; j < i; j++)
            sum += set >> i & set >> j & 1 ? bandwidth(links->of[i][j]) : 0;
    return sum;
}

static int slowest_in(const struct gpu_links *links, unsigned set)
{
    struct rings rings = {.count = 0};
    int slots[GPUS];
    rings.count = slots_of(set, slots);
    for (int i = 0; i < rings.count; i++)
        for (int j = 0; j < rings.count; j++)
            rings.links[i][j] = links->of[slots[i]][slots[j]];
    best_ring(&rings);
    return rings.slowest;
}

/* The runs of `each` slots that begin at `firsts`; 0 if they overlap or are not all free. */
static unsigned runs_of(unsigned firsts, int each, unsigned free)
{
    unsigned set = 0;
    for (int i = 0; i < GPUS; i++) {
        unsigned run = ((1u << each) - 1) << i;
        if (!(firsts >> i & 1))
            continue;
        if ((run & free) != run || run & set)
            return 0;
        set |= run;
    }
    return set;
}

/* Of two sets of equally many slots, the first differing slot decides. */
static bool is_before(unsigned a, unsigned b)
{
    unsigned differing = a ^ b;
    return a & (differing & -differing);
}

struct tables { /* by set of slots */
    int slowest[1 << GPUS], within[1 << GPUS];
};

static unsigned best_firsts(const struct tables *of, unsigned free, int workers, int each)
{
    unsigned best = 0, best_set = 0;
    for (unsigned firsts = 1; firsts < 1u << GPUS; firsts++) {
        unsigned set = __builtin_popcount(firsts) == workers ? runs_of(firsts, each, free) : 0;
        if (!set)
            continue;
        int better = best ? of->slowest[set] - of->slowest[best_set] : 1;
        better = better ? better : of->within[set] - of->within[best_set];
        better = better ? better : of->within[free & ~set] - of->within[free & ~best_set];
        if (better > 0 || (better == 0 && is_before(firsts, best))) {
            best = firsts;
            best_set = set;
        }
    }
    return best;
}

static void order_of(const struct gpu_links *links, unsigned firsts, int each, int ret[GPUS])
{
    struct rings rings = {.count = 0};
    int slots[GPUS];
    rings.count = slots_of(firsts, slots);
    for (int i = 0; i < rings.count; i++)
        for (int j = 0; j < rings.count; j++)
            for (int a = 0; a < each; a++)
                for (int b = 0; b < each; b++) {
                    uint8_t link = links->of[slots[i] + a][slots[j] + b];
                    if (link > rings.links[i][j])
                        rings.links[i][j] = link;
                }
    best_ring(&rings);
    for (int i = 0; i < rings.count; i++)
        ret[i] = slots[rings.best[i]];
}

static bool links_differ(const struct gpu_links *links, unsigned free)
{
    bool seen[256] = {false};
    int kinds = 0;
    for (int i = 0; i < GPUS; i++)
        for (int j = 0; j < i; j++)
            if (free >> i & free >> j & 1) {
                kinds += seen[links->of[i][j]] ? 0 : 1;
                seen[links->of[i][j]] = true;
            }
    return kinds > 1;
}

static int check_one(const struct gpu_links *links, const struct tables *of, unsigned free,
                     int workers, int each)
{
    struct gpu_request request = {.free = free, .workers = workers, .each = each};
    unsigned firsts = links_differ(links, free) ? best_firsts(of, free, workers, each) : 0;
    int slots[GPUS], expected[GPUS];
    bool picked = gpu_pick(links, &request, slots);
    cr_assert_eq(picked, firsts != 0, "free %x, %d x %d", free, workers, each);
    if (!picked)
        return 0;
    order_of(links, firsts, each, expected);
    for (int i = 0; i < workers; i++)
        cr_assert_eq(slots[i], expected[i], "free %x, %d x %d: rank %d has slot %d, not %d", free,
                     workers, each, i, slots[i], expected[i]);
    return 1;
}

/* All sets of free slots, all sizes of a job. */
static void check_all(const struct gpu_links *links)
{
    static struct tables of;
    int picked = 0;
    for (unsigned set = 0; set < 1u << GPUS; set++) {
        of.slowest[set] = set ? slowest_in(links, set) : 0;
        of.within[set] = within(links, set);
    }
    for (unsigned free = 0; free < 1u << GPUS; free++)
        for (int each = 1; each <= 3; each++)
            for (int workers = 1; workers * each <= GPUS; workers++)
                picked += check_one(links, &of, free, workers, each);
    cr_expect_gt(picked, 100);
}

static void read_rows(const char *const rows[GPUS], struct gpu_links *ret)
{
    ret->gpus = GPUS;
    for (int i = 0; i < GPUS; i++)
        cr_assert_eq(gpu_links_read(rows[i], ret->of[i]), GPUS);
}

static const char *const two_rings[GPUS] = {
    "X NV2 NODE NV2 SYS SYS SYS SYS", "NV2 X NV2 NODE SYS SYS SYS SYS",
    "NODE NV2 X NV2 SYS SYS SYS SYS", "NV2 NODE NV2 X SYS SYS SYS SYS",
    "SYS SYS SYS SYS X NV2 NODE NV2", "SYS SYS SYS SYS NV2 X NV2 NODE",
    "SYS SYS SYS SYS NODE NV2 X NV2", "SYS SYS SYS SYS NV2 NODE NV2 X"};
/* A cube mesh as in DGX-1V. */
static const char *const cube[GPUS] = {
    "X NV1 NV1 NV2 NV2 SYS SYS SYS", "NV1 X NV2 NV1 SYS NV2 SYS SYS",
    "NV1 NV2 X NV2 SYS SYS NV1 SYS", "NV2 NV1 NV2 X SYS SYS SYS NV1",
    "NV2 SYS SYS SYS X NV1 NV1 NV2", "SYS NV2 SYS SYS NV1 X NV2 NV1",
    "SYS SYS NV1 SYS NV1 NV2 X NV2", "SYS SYS SYS NV1 NV2 NV1 NV2 X"};
/* Pairs below a bridge each, two bridges at a socket. */
static const char *const bus[GPUS] = {
    "X PIX PHB PHB SYS SYS SYS SYS", "PIX X PHB PHB SYS SYS SYS SYS",
    "PHB PHB X PIX SYS SYS SYS SYS", "PHB PHB PIX X SYS SYS SYS SYS",
    "SYS SYS SYS SYS X PIX PHB PHB", "SYS SYS SYS SYS PIX X PHB PHB",
    "SYS SYS SYS SYS PHB PHB X PIX", "SYS SYS SYS SYS PHB PHB PIX X"};

Test(gpu_pick, is_the_best_of_all_choices_on_known_boards)
{
    struct gpu_links links;
    const char *const *const boards[] = {two_rings, cube, bus};
    for (int i = 0; i < 3; i++) {
        read_rows(boards[i], &links);
        check_all(&links);
    }
}

Test(gpu_pick, is_the_best_of_all_choices_on_any_board)
{
    const uint8_t kinds[] = {GPU_LINK_UNKNOWN, GPU_LINK_SYS,           GPU_LINK_NODE,
                             GPU_LINK_PIX,     gpu_link_of_nvlinks(1), gpu_link_of_nvlinks(6)};
    struct rng rng;
    rng_seed(&rng, 7);
    for (int board = 0; board < 12; board++) {
        struct gpu_links links = {.gpus = GPUS};
        uint64_t variety = 2 + (uint64_t)board % 5;
        for (int i = 0; i < GPUS; i++) {
            links.of[i][i] = GPU_LINK_SELF;
            for (int j = 0; j < i; j++)
                links.of[i][j] = links.of[j][i] = kinds[rng_below(&rng, variety)];
        }
        check_all(&links);
    }
}

static void expect_pick(const char *const rows[GPUS], unsigned free, int workers,
                        const char *expected)
{
    struct gpu_links links;
    struct gpu_request request = {.free = free, .workers = workers, .each = 1};
    int slots[GPUS];
    char text[2 * GPUS + 1] = "";
    read_rows(rows, &links);
    cr_assert(gpu_pick(&links, &request, slots));
    for (int i = 0; i < workers; i++)
        snprintf(text + 2 * i, 3, "%d ", slots[i]);
    text[2 * workers - 1] = '\0';
    cr_expect_str_eq(text, expected, "free %x", free);
}

Test(gpu_pick, islands_stay_whole)
{
    expect_pick(two_rings, 0xff, 4, "0 1 2 3");
    expect_pick(two_rings, 0xfe, 4, "4 5 6 7");
    expect_pick(two_rings, 0xfc, 2, "2 3");
    expect_pick(two_rings, 0xf8, 1, "3");
    expect_pick(two_rings, 0x3f, 1, "4");
    expect_pick(two_rings, 0xf5, 2, "4 5");
}

Test(gpu_pick, ranks_follow_the_links)
{
    expect_pick(cube, 0xff, 4, "0 1 2 3");
    expect_pick(cube, 0xff, 8, "0 3 2 1 5 6 7 4");
    expect_pick(bus, 0xff, 8, "0 1 2 3 4 5 6 7");
}

Test(gpu_pick, where_all_links_are_alike_the_first_slots_are_as_good)
{
    struct gpu_links links = {.gpus = GPUS};
    struct gpu_request request = {.free = 0xff, .workers = 4, .each = 1};
    int slots[GPUS];
    memset(links.of, gpu_link_of_nvlinks(18), sizeof(links.of));
    cr_expect_not(gpu_pick(&links, &request, slots));
}

/* Two islands of 16: found greedily, within one island. */
Test(gpu_pick, more_gpus_than_can_be_tried_are_picked_from_one_island)
{
    struct gpu_links links = {.gpus = 32};
    struct gpu_request request = {.free = 0xfffffffe, .workers = 12, .each = 1};
    int slots[GPU_LINKS_MAX];
    for (int i = 0; i < 32; i++)
        for (int j = 0; j < 32; j++)
            links.of[i][j] = i / 16 == j / 16 ? gpu_link_of_nvlinks(4) : GPU_LINK_SYS;
    cr_assert(gpu_pick(&links, &request, slots));
    for (int i = 0; i < 12; i++)
        cr_expect_eq(slots[i], 1 + i, "the island that has a GPU in use");
    cr_expect_eq(gpu_ring_slowest(&links, slots, 12), gpu_link_of_nvlinks(4));
}

Test(gpu_pick, links_are_known_if_each_row_has_a_word_for_each_gpu)
{
    struct gpu gpus[2] = {{.links = "X NV4"}, {.links = "NV4 X"}};
    struct node node = {.gpus = gpus, .gpus_count = 2};
    struct gpu_links links;
    cr_expect(gpu_links_of(&node, &links));
    cr_expect_eq(links.of[0][1], gpu_link_of_nvlinks(4));
    gpus[1].links[0] = '\0';
    cr_expect_not(gpu_links_of(&node, &links));
}
