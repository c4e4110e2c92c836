/* A sentence about an exit. Pure. */
#ifndef SUPERVISOR_EXIT_TEXT_H
#define SUPERVISOR_EXIT_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "agent/core/launch.h"

struct exit_circumstances {
    uint64_t limit_bytes, peak_bytes; /* of memory; 0 = unknown */
    int asked_signal;                 /* our own SIGTERM or SIGKILL; 0 = none */
    bool core_dumped;
};

/* "exited with code 3"; "killed by SIGKILL (out of memory: 2.0 GiB of 2.0 GiB)"; "killed by SIGTERM
 * (asked to stop)". Fills exit->text. */
void exit_describe(struct worker_exit *exit, const struct exit_circumstances *circumstances);

#endif
