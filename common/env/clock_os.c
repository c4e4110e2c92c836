#include "common/env/clock_os.h"

#include <time.h>

static int64_t read_ms(clockid_t id)
{
    struct timespec now;
    clock_gettime(id, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int64_t clock_os_now_ms(void)
{
    return read_ms(CLOCK_MONOTONIC);
}

static int64_t now_ms(void *self)
{
    (void)self;
    return clock_os_now_ms();
}

static int64_t coarse_ms(void *self)
{
    (void)self;
    return read_ms(CLOCK_MONOTONIC_COARSE);
}

static int64_t wall_ms(void *self)
{
    (void)self;
    return read_ms(CLOCK_REALTIME);
}

struct clock clock_os(void)
{
    return (struct clock){.now_ms = now_ms, .wall_ms = wall_ms};
}

struct clock clock_os_coarse(void)
{
    return (struct clock){.now_ms = coarse_ms, .wall_ms = wall_ms};
}
