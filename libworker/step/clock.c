#include "libworker/step/clock.h"

#include <time.h>

int64_t context_now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t context_now_ms(void)
{
    return context_now_ns() / 1000000;
}
