/* The time that drives deadlines and waits. Any thread. */
#ifndef COMM_CLOCK_H
#define COMM_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Monotonic. */
static inline int64_t comm_now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

#endif
