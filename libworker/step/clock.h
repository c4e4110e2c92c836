/* The monotonic clock of a context's deadlines and measurements. Any thread. */
#ifndef STEP_CLOCK_H
#define STEP_CLOCK_H

#include <stdint.h>

int64_t context_now_ms(void);
int64_t context_now_ns(void);

#endif
