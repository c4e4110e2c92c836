#include "cli/sim_draw.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/parse.h"
#include "common/base/str.h"

enum { WORD_MAX = 48 };

static int read_quantity(const char *word, bool durations, double *ret, struct error *err)
{
    int64_t ms;
    if (!durations)
        return parse_f64(word, ret, err);
    int rc = parse_duration(word, &ms, err);
    *ret = rc ? 0 : (double)ms;
    return rc;
}

/* The next word; false at the end, or if it is too long to be one. */
static bool next_word(const char **at, char ret[WORD_MAX])
{
    *at += strspn(*at, " ");
    size_t size = strcspn(*at, " ");
    if (size == 0 || size >= WORD_MAX)
        return false;
    memcpy(ret, *at, size);
    ret[size] = 0;
    *at += size;
    return true;
}

static int read_range(char *word, bool durations, struct sim_draw *ret, struct error *err)
{
    char *dots = strstr(word, "..");
    if (!dots)
        return error_set(err, E_INVALID_ARGUMENT, "'%s' is no range", word);
    *dots = 0;
    int rc = read_quantity(word, durations, &ret->a, err);
    if (!rc)
        rc = read_quantity(dots + 2, durations, &ret->b, err);
    if (!rc && ret->a > ret->b)
        rc = error_set(err, E_INVALID_ARGUMENT, "the end of the range is before its start");
    return rc;
}

static int read_choices(const char *at, bool durations, struct sim_draw *ret, struct error *err)
{
    char word[WORD_MAX];
    int rc = 0;
    while (!rc && ret->count < SIM_CHOICES_MAX && next_word(&at, word))
        rc = read_quantity(word, durations, &ret->choices[ret->count++], err);
    if (rc || ret->count)
        return rc;
    return error_set(err, E_INVALID_ARGUMENT, "nothing to choose from");
}

static int read_rest(const char *name, const char *at, bool durations, struct sim_draw *ret,
                     struct error *err)
{
    char word[WORD_MAX] = "", second[WORD_MAX] = "";
    if (strcmp(name, "choice") == 0) {
        ret->kind = DRAW_CHOICE;
        return read_choices(at, durations, ret, err);
    }
    bool any = next_word(&at, word);
    (void)next_word(&at, second);
    if (any && strcmp(name, "uniform") == 0) {
        ret->kind = DRAW_UNIFORM;
        return read_range(word, durations, ret, err);
    }
    if (any && strcmp(name, "exponential") == 0) {
        ret->kind = DRAW_EXPONENTIAL;
        return read_quantity(word, durations, &ret->a, err);
    }
    if (any && strcmp(name, "lognormal") == 0) {
        ret->kind = DRAW_LOGNORMAL;
        int rc = read_quantity(word, durations, &ret->a, err);
        if (rc)
            return rc;
        return parse_f64(second, &ret->b, err);
    }
    return read_quantity(name, durations, &ret->a, err);
}

int sim_draw_parse(const char *text, bool durations, struct sim_draw *ret, struct error *err)
{
    char name[WORD_MAX];
    const char *at = text;
    *ret = (struct sim_draw){.kind = DRAW_CONSTANT};
    int rc = next_word(&at, name) ? read_rest(name, at, durations, ret, err) : E_INVALID_ARGUMENT;
    if (!rc)
        return 0;
    error_set(err, E_INVALID_ARGUMENT, "'%.60s' is no %s and nothing to draw one from", text,
              durations ? "duration" : "number");
    error_hint(err, durations ? "10m, uniform 1m..10m, exponential 30s, lognormal 10m 1.2"
                              : "4, uniform 1..8, choice 1 2 4 8");
    return E_INVALID_ARGUMENT;
}

/* Box and Muller, 1958. */
static double normal(struct rng *rng)
{
    static const double two_pi = 6.283185307179586;
    double u = 1 - rng_double(rng);
    return sqrt(-2 * log(u)) * cos(two_pi * rng_double(rng));
}

double sim_draw_next(const struct sim_draw *draw, struct rng *rng)
{
    switch (draw->kind) {
    case DRAW_CONSTANT:
        return draw->a;
    case DRAW_UNIFORM:
        return floor(draw->a + rng_double(rng) * (draw->b - draw->a + 1));
    case DRAW_EXPONENTIAL:
        return -draw->a * log(1 - rng_double(rng));
    case DRAW_LOGNORMAL:
        return draw->a * exp(draw->b * normal(rng));
    case DRAW_CHOICE:
        return draw->choices[rng_below(rng, (uint64_t)draw->count)];
    }
    return draw->a;
}
