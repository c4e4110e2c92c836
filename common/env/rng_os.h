/* Randomness fit for secrets: getrandom(2). Stateless; any thread. Aborts if the kernel refuses. */
#ifndef ENV_RNG_OS_H
#define ENV_RNG_OS_H

#include "common/env/env.h"

struct rng_source rng_os(void);

#endif
