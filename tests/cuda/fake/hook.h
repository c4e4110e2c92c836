/* Between fake_begin and fake_end launches of emulated kernels are work of the fake's streams. */
#ifndef FAKE_HOOK_H
#define FAKE_HOOK_H

#include <stdint.h>

void hook_begin(uint64_t seed);
void hook_end(void);

#endif
