#include "libworker/parallel/unit_slots.h"

#include <stdint.h>
#include <stdlib.h>

#include <worker/error.h>

/* When units are in use: a bit for each unit and moment. A moment is a block's pass. */
struct uses {
    int n_units, moments;
    size_t words; /* of a unit */
    uint64_t *bits;
};

enum { WORD = 64 };

static int uses_init(struct uses *uses, int n_units, int moments)
{
    size_t words = ((size_t)moments + WORD - 1) / WORD;
    *uses =
        (struct uses){n_units, moments, words, calloc((size_t)n_units * words, sizeof(uint64_t))};
    return uses->bits ? 0 : WK_ENOMEM;
}

static void mark_used(struct uses *uses, int unit, int moment)
{
    uses->bits[(size_t)unit * uses->words + (size_t)moment / WORD] |= 1ull << moment % WORD;
}

static bool used_at_once(const struct uses *uses, int a, int b)
{
    bool both = false;
    for (size_t i = 0; i < uses->words; i++)
        both = both || (uses->bits[(size_t)a * uses->words + i] &
                        uses->bits[(size_t)b * uses->words + i]) != 0;
    return both;
}

int unit_at(const struct unit_walk *walk, int place)
{
    return walk->order ? walk->order[place] : place;
}

int unit_place(const struct unit_walk *walk, int unit)
{
    int place = 0;
    while (unit_at(walk, place) != unit)
        place++;
    return place;
}

bool unit_stays(const struct unit_walk *walk, int unit)
{
    return walk->keeps || unit == 0 || unit == walk->n_trained - 1 ||
           unit == unit_at(walk, walk->n_units - 1);
}

/* As sharded_blocks.c gathers and releases. */
static void use_params(const struct unit_walk *walk, struct uses *uses, bool *gathered)
{
    int n = walk->n_units, first = unit_place(walk, 0);
    for (int moment = 0; moment < uses->moments; moment++) {
        bool back = moment >= n;
        int place = back ? 2 * n - 1 - moment : moment, step = back ? -1 : 1;
        for (int i = 0; i <= walk->prefetch; i++) {
            int next = place + i * step;
            if (next < n && next >= (back ? first : 0))
                gathered[unit_at(walk, next)] = true;
        }
        for (int unit = 0; unit < n; unit++)
            if (gathered[unit])
                mark_used(uses, unit, moment);
        int unit = unit_at(walk, place);
        if (back ? unit != 0 : !unit_stays(walk, unit))
            gathered[unit] = false;
    }
}

static bool may_share(const struct uses *uses, const struct unit_slots *slots, int slot, int unit)
{
    bool may = true;
    for (int other = 0; other < slots->n_units; other++)
        may = may && (slots->slot_of[other] != slot || !used_at_once(uses, unit, other));
    return may;
}

static int largest_left(const struct unit_walk *walk, const struct unit_slots *slots)
{
    int largest = -1;
    for (int i = 0; i < slots->n_units; i++)
        if (slots->slot_of[i] < 0 && (largest < 0 || walk->sizes[i] > walk->sizes[largest]))
            largest = i;
    return largest;
}

static int slots_init(struct unit_slots *slots, int n_units)
{
    *slots = (struct unit_slots){.n_units = n_units,
                                 .slot_of = calloc((size_t)n_units, sizeof(int)),
                                 .sizes = calloc((size_t)n_units, sizeof(size_t))};
    if (!slots->slot_of || !slots->sizes) {
        unit_slots_fini(slots);
        return WK_ENOMEM;
    }
    for (int i = 0; i < n_units; i++)
        slots->slot_of[i] = -1;
    return 0;
}

static int find_slots(const struct unit_walk *walk, const struct uses *uses, struct unit_slots *ret)
{
    int rc = slots_init(ret, uses->n_units);
    for (int done = 0; done < uses->n_units && !rc; done++) {
        int unit = largest_left(walk, ret), slot = 0;
        while (slot < ret->n_slots && !may_share(uses, ret, slot, unit))
            slot++;
        if (slot == ret->n_slots)
            ret->sizes[ret->n_slots++] = walk->sizes[unit];
        ret->slot_of[unit] = slot;
    }
    return rc;
}

int unit_slots_params(const struct unit_walk *walk, struct unit_slots *ret)
{
    struct uses uses;
    /* Nothing trained is before unit 0, where a backward pass ends. */
    int moments = 2 * walk->n_units - unit_place(walk, 0);
    bool *gathered = calloc((size_t)walk->n_units, sizeof(*gathered));
    int rc = gathered ? uses_init(&uses, walk->n_units, moments) : WK_ENOMEM;
    if (!rc) {
        use_params(walk, &uses, gathered);
        rc = find_slots(walk, &uses, ret);
        free(uses.bits);
    }
    free(gathered);
    return rc;
}

int unit_slots_grads(const struct unit_walk *walk, int ahead, bool early, struct unit_slots *ret)
{
    struct uses uses;
    int n = walk->n_trained;
    int rc = uses_init(&uses, n, n);
    if (rc)
        return rc;
    for (int unit = 0; unit < n; unit++)
        for (int moment = n - 1 - unit; moment <= n - 1 - unit + ahead && moment < n; moment++)
            mark_used(&uses, unit, moment);
    for (int moment = 0; moment < n && early; moment++)
        mark_used(&uses, 0, moment);
    rc = find_slots(walk, &uses, ret);
    free(uses.bits);
    return rc;
}

int unit_slots_one(const struct unit_walk *walk, struct unit_slots *ret)
{
    struct uses uses;
    int rc = uses_init(&uses, walk->n_units, 1);
    if (rc)
        return rc;
    rc = find_slots(walk, &uses, ret);
    free(uses.bits);
    return rc;
}

void unit_slots_fini(struct unit_slots *slots)
{
    free(slots->slot_of);
    free(slots->sizes);
    *slots = (struct unit_slots){0};
}

size_t unit_slots_total(const struct unit_slots *slots)
{
    size_t total = 0;
    for (int i = 0; i < slots->n_slots; i++)
        total += slots->sizes[i];
    return total;
}
