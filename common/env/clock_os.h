/* The operating system's clocks. Stateless; any thread. */
#ifndef ENV_CLOCK_OS_H
#define ENV_CLOCK_OS_H

#include "common/loop/clock.h"

struct clock clock_os(void);
int64_t clock_os_now_ms(void); /* its now_ms; any thread */

#endif
