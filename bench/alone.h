/* What benchmarks of one thread share: its processor's time, which other work on the machine
 * disturbs little, and the environment of a process that is alone. */
#ifndef BENCH_ALONE_H
#define BENCH_ALONE_H

#include <stddef.h>
#include <time.h>

/* Seconds of this thread's processor. */
static inline double alone_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* For struct environment: nothing is set, whatever the process has. */
static inline const char *alone_environment(void *arg, const char *name)
{
    (void)arg;
    (void)name;
    return NULL;
}

#endif
