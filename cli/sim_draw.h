/* Random numbers, described by text:
 *
 *   10m                   a constant
 *   uniform 1m..10m       each value between, both included
 *   exponential 30s       by its mean
 *   lognormal 10m 1.2     by its median, and the standard deviation of its logarithm
 *   choice 1 2 4 8        equally likely
 *
 * Quantities are durations (in milliseconds) or plain numbers. Pure.
 */
#ifndef CLI_SIM_DRAW_H
#define CLI_SIM_DRAW_H

#include <stdbool.h>

#include "common/base/error.h"
#include "common/base/rng.h"

enum { SIM_CHOICES_MAX = 32 };

struct sim_draw {
    enum { DRAW_CONSTANT, DRAW_UNIFORM, DRAW_EXPONENTIAL, DRAW_LOGNORMAL, DRAW_CHOICE } kind;
    double a, b;
    double choices[SIM_CHOICES_MAX];
    int count;
};

int sim_draw_parse(const char *text, bool durations, struct sim_draw *ret, struct error *err);
double sim_draw_next(const struct sim_draw *draw, struct rng *rng);

#endif
