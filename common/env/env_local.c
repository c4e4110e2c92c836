#include "common/env/clock_os.h"
#include "common/env/disk_os.h"
#include "common/env/env.h"
#include "common/env/net_os.h"
#include "common/env/rng_os.h"

int env_local_init(struct env *env, struct loop *loop, struct error *err)
{
    *env = (struct env){.clock = clock_os(), .rng = rng_os(), .disk = disk_os()};
    return net_local_init(&env->net, loop, err);
}

void env_local_fini(struct env *env)
{
    net_local_fini(&env->net);
    *env = (struct env){0};
}
