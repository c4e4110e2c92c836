/* The operating system's clocks. Stateless; any thread. */
#ifndef ENV_CLOCK_OS_H
#define ENV_CLOCK_OS_H

#include "common/loop/clock.h"

struct clock clock_os(void);
/* Later than the other by up to a tick of the kernel (1 to 10 ms), at a fifth of its price: for
 * deadlines of seconds that every request sets. */
struct clock clock_os_coarse(void);
int64_t clock_os_now_ms(void); /* its now_ms; any thread */

#endif
