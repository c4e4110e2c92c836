/* Of the fake runtime: fake_watch (fake.h), and what stream.c asks of it around each work. */
#ifndef FAKE_WATCH_H
#define FAKE_WATCH_H

#include "tests/cuda/fake/fake.h"

/* True: it is watched, and ends with touches_end. Device memory is closed then. */
bool touches_begin(const char *name);
void touches_end(void);

#endif
