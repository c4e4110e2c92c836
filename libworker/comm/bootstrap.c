#include "libworker/comm/bootstrap.h"

#include <string.h>

#include "libworker/comm/bootstrap_ask.h"
#include "libworker/comm/bootstrap_serve.h"

enum { TIMEOUT_MS = 60000 };

int comm_bootstrap(const struct comm_bootstrap_options *options, struct comm_table *ret,
                   struct error *err)
{
    struct comm_bootstrap_options o = *options;
    struct error unheard = {0};
    err = err ? err : &unheard;
    if (o.world < 1 || o.world > COMM_WORLD_MAX || o.rank < 0 || o.rank >= o.world)
        return error_set(err, WK_EINVAL, "rank %d of %d is not within a world of 1 to %d", o.rank,
                         o.world, COMM_WORLD_MAX);
    if (!o.endpoint || (o.world > 1 && !o.master_addr))
        return error_set(err, WK_EINVAL, "bootstrap needs an endpoint and a master address");
    if (o.world > 1 && (o.master_port < 1 || o.master_port > 65535))
        return error_set(err, WK_EINVAL, "%d is no port", o.master_port);
    if (o.run && strlen(o.run) >= COMM_RUN_BYTES)
        return error_set(err, WK_EINVAL, "a run's name of %zu bytes", strlen(o.run));
    if (o.timeout_ms <= 0)
        o.timeout_ms = TIMEOUT_MS;
    return o.rank == 0 ? bootstrap_serve(&o, ret, err) : bootstrap_ask(&o, ret, err);
}
