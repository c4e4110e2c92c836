#include "agent/core/launch.h"

#include <string.h>

#include "common/base/error.h"

int agent_start_code(int error_code)
{
    switch (error_code) {
    case E_NOT_FOUND:
        return AGENT_START_NOT_FOUND;
    case E_PERMISSION_DENIED:
    case E_INVALID_ARGUMENT:
        return AGENT_START_NOT_EXECUTABLE;
    case E_RESOURCE_EXHAUSTED: /* no room, memory or descriptors */
        return AGENT_START_NODE_FAULT;
    default:
        return AGENT_START_AGAIN;
    }
}

void launch_gpus_join(struct launch_gpus *into, const struct launch_gpus *more)
{
    if (!into->major || !more->major) {
        *into = (struct launch_gpus){0};
        return;
    }
    for (int i = 0; i < more->count; i++) { /* ascending, each once: equal sets are equal bytes */
        uint32_t minor = more->minors[i];
        int at = 0;
        while (at < into->count && into->minors[at] < minor)
            at++;
        if ((at < into->count && into->minors[at] == minor) || into->count == AGENT_GPUS_MAX)
            continue;
        memmove(&into->minors[at + 1], &into->minors[at],
                sizeof(minor) * (size_t)(into->count - at));
        into->minors[at] = minor;
        into->count++;
    }
}
