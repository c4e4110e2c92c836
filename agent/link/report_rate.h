/* A limit on a reporter: a number a second on average, and a larger number at once after silence
 * (the generic cell rate algorithm, ITU-T I.371). Zeroed memory is a reporter that was silent. */
#ifndef LINK_REPORT_RATE_H
#define LINK_REPORT_RATE_H

#include <stdbool.h>
#include <stdint.h>

struct report_rate {
    int64_t due_us; /* when all so far would have arrived at the average rate */
};

/* One more at `now_ms`; false if it is over the rate, and then it does not count. */
static inline bool report_rate_take(struct report_rate *rate, int64_t now_ms, int per_s, int burst)
{
    int64_t now_us = now_ms * 1000, cost_us = 1000000 / per_s;
    int64_t due_us = rate->due_us > now_us ? rate->due_us : now_us;
    if (due_us - now_us > (int64_t)(burst - 1) * cost_us)
        return false;
    rate->due_us = due_us + cost_us;
    return true;
}

#endif
