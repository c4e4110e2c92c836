/* A build without the control plane. */
#include <worker/error.h>

#include "libworker/session/session.h"

int session_open(const struct session_address *address, struct session **ret, struct error *err)
{
    (void)address;
    (void)ret;
    return error_set(err, WK_EUNSUPPORTED, "this libworker was built without Muster's session");
}
