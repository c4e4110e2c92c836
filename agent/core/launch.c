#include "agent/core/launch.h"

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
