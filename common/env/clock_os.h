/* The operating system's clocks. Stateless; any thread. */
#ifndef ENV_CLOCK_OS_H
#define ENV_CLOCK_OS_H

#include "common/env/env.h"

struct clock clock_os(void);

#endif
