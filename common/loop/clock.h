/* The clock as an interface, so that the same program runs in real and in simulated time. The loop
 * and an env (env/env.h) have copies; `self` outlives them. Loop thread only, except clock_os. */
#ifndef LOOP_CLOCK_H
#define LOOP_CLOCK_H

#include <stdint.h>

/* Monotonic time drives every deadline; wall time is only shown to people and stored. */
struct clock {
    void *self;
    int64_t (*now_ms)(void *self);  /* monotonic: it never decreases while the program runs */
    int64_t (*wall_ms)(void *self); /* milliseconds since 1970, UTC; may jump */
};

#endif
