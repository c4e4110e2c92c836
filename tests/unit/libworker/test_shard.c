/* Every element has one owner, whatever the sizes and the number of ranks. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "libworker/comm/arena.h"
#include "libworker/parallel/groups.h"
#include "libworker/parallel/pages.h"
#include "libworker/parallel/shard.h"
#include "libworker/parallel/unit_slots.h"

enum { ELEMENTS_MAX = 4096 };

/* Unit sizes from `seed`: small, large, one element, multiples of the alignment. */
static int cut(unsigned seed, size_t ends[8])
{
    static const size_t sizes[] = {1, 2, 15, 16, 17, 31, 64, 100, 255, 333};
    int n = 1 + (int)(seed % 5);
    size_t at = 0;
    for (int i = 0; i < n; i++) {
        at += sizes[(seed / 7 + (unsigned)i * 3 + seed * (unsigned)i) % 10];
        ends[i] = at;
    }
    return n;
}

Test(shard, every_element_has_one_owner_and_one_place)
{
    for (unsigned seed = 0; seed < 200; seed++)
        for (int world = 1; world <= 9; world++) {
            size_t ends[8], owned = 0;
            int n = cut(seed, ends);
            struct shard_plan plan;
            unsigned char owners[ELEMENTS_MAX] = {0};
            cr_assert_eq(shard_plan_init(&plan, ends, n, world, NULL), 0);
            for (int rank = 0; rank < world; rank++) {
                unsigned char places[ELEMENTS_MAX] = {0};
                owned += shard_owned(&plan, rank);
                for (size_t i = 0; i < ends[n - 1]; i++) {
                    struct shard_piece p = shard_piece(&plan, shard_unit_of(&plan, i), rank, i, 1);
                    if (!p.count)
                        continue;
                    cr_assert(p.first == 0 && p.at < plan.shard && !places[p.at]);
                    places[p.at] = 1;
                    owners[i]++;
                }
            }
            cr_assert_eq(owned, ends[n - 1]);
            for (size_t i = 0; i < ends[n - 1]; i++)
                cr_assert_eq(owners[i], 1);
            shard_plan_fini(&plan);
        }
}

Test(shard, rows_are_aligned_and_units_apart)
{
    for (unsigned seed = 0; seed < 200; seed++)
        for (int world = 1; world <= 9; world++) {
            size_t ends[8], end = 0, shard = 0;
            int n = cut(seed, ends);
            struct shard_plan plan;
            cr_assert_eq(shard_plan_init(&plan, ends, n, world, NULL), 0);
            for (int i = 0; i < n; i++) {
                const struct shard_unit *u = &plan.units[i];
                cr_assert(u->row % SHARD_ALIGN == 0 && u->place % SHARD_PAGE == 0);
                cr_assert(u->place >= end && u->row * (size_t)world >= u->count);
                cr_assert(u->row * (size_t)world < u->count + (size_t)world * SHARD_ALIGN);
                cr_assert_eq(u->shard, shard);
                end = u->place + u->row * (size_t)world;
                shard += u->row;
            }
            cr_assert(plan.padded >= end && plan.shard == shard);
            shard_plan_fini(&plan);
        }
}

Test(shard, pieces_of_a_range_are_those_of_its_elements)
{
    size_t ends[8];
    int n = cut(11, ends);
    struct shard_plan plan;
    cr_assert_eq(shard_plan_init(&plan, ends, n, 3, NULL), 0);
    for (int unit = 0; unit < n; unit++) {
        const struct shard_unit *u = &plan.units[unit];
        for (size_t from = 0; from < u->count; from++)
            for (size_t count = 1; from + count <= u->count; count++)
                for (int rank = 0; rank < 3; rank++) {
                    size_t held = 0, first = 0, at = 0;
                    for (size_t i = count; i-- > 0;) {
                        struct shard_piece one =
                            shard_piece(&plan, unit, rank, u->offset + from + i, 1);
                        held += one.count;
                        first = one.count ? i : first;
                        at = one.count ? one.at : at;
                    }
                    struct shard_piece p = shard_piece(&plan, unit, rank, u->offset + from, count);
                    cr_assert_eq(p.count, held);
                    cr_assert(!held || (p.first == first && p.at == at));
                }
    }
    shard_plan_fini(&plan);
}

Test(shard, carrying_over_moves_every_element_between_any_two_worlds)
{
    static float whole[ELEMENTS_MAX], from[ELEMENTS_MAX * 2], to[ELEMENTS_MAX * 2];
    for (unsigned seed = 0; seed < 40; seed++)
        for (int before = 1; before <= 5; before++)
            for (int after = 1; after <= 5; after++) {
                size_t ends[8], other[8];
                int n = cut(seed, ends), m = 0;
                /* The other cut is another strategy's: fewer units over the same elements. */
                for (int i = n % 2; i < n; i += 2)
                    other[m++] = ends[i];
                if (!m || other[m - 1] != ends[n - 1])
                    other[m++] = ends[n - 1];
                struct shard_plan a, b;
                cr_assert_eq(shard_plan_init(&a, ends, n, before, NULL), 0);
                cr_assert_eq(shard_plan_init(&b, other, m, after, NULL), 0);
                for (size_t i = 0; i < ends[n - 1]; i++)
                    whole[i] = (float)(i + 1);
                for (int r = 0; r < after; r++) {
                    memset(to, 0, sizeof(to));
                    for (int q = 0; q < before; q++) {
                        memset(from, 0, sizeof(from));
                        for (int u = 0; u < n; u++) {
                            struct shard_piece p =
                                shard_piece(&a, u, q, a.units[u].offset, a.units[u].count);
                            memcpy(from + p.at, whole + a.units[u].offset + p.first,
                                   p.count * sizeof(float));
                        }
                        shard_carry(&a, q, from, &b, r, to);
                    }
                    for (int u = 0; u < m; u++) {
                        struct shard_piece p =
                            shard_piece(&b, u, r, b.units[u].offset, b.units[u].count);
                        cr_assert_eq(memcmp(to + p.at, whole + b.units[u].offset + p.first,
                                            p.count * sizeof(float)),
                                     0);
                    }
                }
                shard_plan_fini(&a);
                shard_plan_fini(&b);
            }
}

/* After ranks were lost or came: replicas that go into the world, or one cut over all of it. */
Test(layout, what_does_not_fit_is_cut_over_all_ranks)
{
    for (int world = 1; world <= 12; world++)
        for (int shards = 0; shards <= 12; shards++)
            for (int replicas = 0; replicas <= 12; replicas++) {
                int wanted = shards ? shards : replicas ? world / replicas : world;
                bool fits = wanted > 0 && world % wanted == 0;
                fits = fits && (shards || !replicas || wanted * replicas == world);
                for (int rank = 0; rank < world; rank++) {
                    struct layout l = layout_of(rank, world, shards, replicas);
                    cr_assert_eq(l.shards, fits ? wanted : world, "%d ranks, %d by %d", world,
                                 shards, replicas);
                    cr_assert(l.shards * l.replicas == world);
                    cr_assert(l.replica * l.shards + l.part == rank && l.part < l.shards);
                }
            }
}

static void give_back_and_look(bool shared)
{
    enum { COUNT = 1 << 18, FROM = 1000, PART = 100000 };
    struct pages pages;
    cr_assert_eq(pages_init(&pages, COUNT, shared), 0);
    cr_assert_eq(pages_resident(&pages, 0, COUNT), 0);
    for (size_t i = 0; i < COUNT; i++)
        pages.data[i] = 1;
    cr_assert_eq(pages_resident(&pages, 0, COUNT), COUNT * sizeof(float));
    pages_drop(&pages, FROM, PART);
    size_t freed = COUNT * sizeof(float) - pages_resident(&pages, 0, COUNT);
    cr_assert(freed <= PART * sizeof(float) && freed + 2 * 65536 >= PART * sizeof(float));
    for (size_t i = 0; i < COUNT; i++)
        cr_assert_eq(pages.data[i], i < FROM || i >= FROM + PART ? 1 : 0);
    pages_drop(&pages, 5, 7);
    cr_assert(pages.data[4] == 1 && pages.data[5] == 0 && pages.data[11] == 0 &&
              pages.data[12] == 1);
    pages_fini(&pages);
}

Test(pages, what_is_given_back_is_zero_and_costs_nothing)
{
    give_back_and_look(false);
    give_back_and_look(true);
}

/* A communicator holds arenas until it ends, and a model may be cut anew long before. */
Test(pages, memory_goes_with_the_owner_also_while_a_communicator_knows_the_arena)
{
    enum { COUNT = 1 << 18 };
    struct pages pages;
    cr_assert_eq(pages_init(&pages, COUNT, true), 0);
    struct wk_arena *held = arena_hold(pages.arena);
    struct pages view = {.data = pages.data, .count = COUNT, .arena = held};
    for (size_t i = 0; i < COUNT; i++)
        pages.data[i] = 1;
    cr_assert_eq(pages_resident(&view, 0, COUNT), COUNT * sizeof(float));
    pages_fini(&pages);
    cr_assert_eq(pages_resident(&view, 0, COUNT), 0);
    arena_release(held);
}

enum { UNITS_MAX = 12 };

/* What has each slot; -1: nothing. A unit that finds another one there is the test's failure. */
struct turns {
    const struct unit_slots *slots;
    int holder[UNITS_MAX];
};

static void take(struct turns *t, int unit)
{
    int slot = t->slots->slot_of[unit];
    cr_assert(t->holder[slot] == -1 || t->holder[slot] == unit, "units %d and %d meet in slot %d",
              t->holder[slot], unit, slot);
    t->holder[slot] = unit;
}

static void leave(struct turns *t, int unit)
{
    cr_assert_eq(t->holder[t->slots->slot_of[unit]], unit);
    t->holder[t->slots->slot_of[unit]] = -1;
}

/* One step of a training, as docs/strategies.md has it. */
static void walk_params(const struct unit_walk *w, struct turns *t)
{
    int n = w->n_units, first = unit_place(w, 0);
    for (int p = 0; p < n; p++) {
        for (int i = p; i <= p + w->prefetch && i < n; i++)
            take(t, unit_at(w, i));
        if (!unit_stays(w, unit_at(w, p)))
            leave(t, unit_at(w, p));
    }
    for (int p = n - 1; p >= first; p--) {
        for (int i = p; i >= p - w->prefetch && i >= first; i--)
            take(t, unit_at(w, i));
        if (unit_at(w, p) != 0)
            leave(t, unit_at(w, p));
    }
}

static void walk_grads(const struct unit_walk *w, int ahead, bool early, struct turns *t)
{
    if (early)
        take(t, 0);
    for (int unit = w->n_trained - 1; unit >= 0; unit--) {
        take(t, unit);
        if (unit + ahead < w->n_trained)
            leave(t, unit + ahead);
    }
}

static void check_slots(const struct unit_slots *slots, const size_t *sizes)
{
    for (int i = 0; i < slots->n_units; i++) {
        cr_assert(slots->slot_of[i] >= 0 && slots->slot_of[i] < slots->n_slots);
        cr_assert_geq(slots->sizes[slots->slot_of[i]], sizes[i]);
    }
}

static struct turns turns_of(const struct unit_slots *slots)
{
    struct turns t = {.slots = slots};
    for (int i = 0; i < UNITS_MAX; i++)
        t.holder[i] = -1;
    return t;
}

/* Sizes and orders from `seed`; frozen units are anywhere among the others. */
static struct unit_walk some_walk(unsigned seed, size_t *sizes, int *order)
{
    struct unit_walk w = {.sizes = sizes, .order = order, .prefetch = (int)(seed % 9)};
    w.n_units = 1 + (int)(seed / 9 % UNITS_MAX);
    w.n_trained = w.n_units - (int)(seed / 5 % (unsigned)w.n_units);
    w.keeps = seed % 11 == 0;
    unsigned state = seed;
    int trained = 0, frozen = w.n_trained;
    for (int p = 0; p < w.n_units; p++) {
        state = state * 1103515245u + 12345u;
        bool trains = trained < w.n_trained && (frozen == w.n_units || state >> 16 & 1);
        order[p] = trains ? trained++ : frozen++;
        sizes[order[p]] = 1 + (state >> 20) % 5;
    }
    return w;
}

Test(unit_slots, units_in_use_at_once_do_not_share)
{
    for (unsigned seed = 0; seed < 4000; seed++) {
        size_t sizes[UNITS_MAX];
        int order[UNITS_MAX];
        struct unit_walk w = some_walk(seed, sizes, order);
        struct unit_slots slots;
        cr_assert_eq(unit_slots_params(&w, &slots), 0);
        check_slots(&slots, sizes);
        struct turns t = turns_of(&slots);
        walk_params(&w, &t);
        unit_slots_fini(&slots);
        for (int ahead = 0; ahead < 3; ahead++) {
            bool early = ahead != 1;
            cr_assert_eq(unit_slots_grads(&w, ahead, early, &slots), 0);
            check_slots(&slots, sizes);
            t = turns_of(&slots);
            walk_grads(&w, ahead, early, &t);
            unit_slots_fini(&slots);
        }
        cr_assert_eq(unit_slots_one(&w, &slots), 0);
        check_slots(&slots, sizes);
        cr_assert_eq(slots.n_slots, 1);
        unit_slots_fini(&slots);
    }
}

/* Beside the first block. */
Test(unit_slots, equal_units_need_the_window)
{
    size_t sizes[UNITS_MAX];
    struct unit_slots slots;
    for (int i = 0; i < UNITS_MAX; i++)
        sizes[i] = i ? 10 : 7;
    for (int prefetch = 0; prefetch < UNITS_MAX; prefetch++) {
        const struct unit_walk w = {
            .sizes = sizes, .n_units = UNITS_MAX, .n_trained = UNITS_MAX, .prefetch = prefetch};
        int window = prefetch + 1 < UNITS_MAX ? prefetch + 1 : UNITS_MAX - 1;
        cr_assert_eq(unit_slots_params(&w, &slots), 0);
        cr_expect_eq(unit_slots_total(&slots), 7 + 10 * (size_t)window);
        unit_slots_fini(&slots);
        cr_assert_eq(unit_slots_grads(&w, prefetch, true, &slots), 0);
        cr_expect_eq(unit_slots_total(&slots), 7 + 10 * (size_t)window);
        unit_slots_fini(&slots);
    }
}
