#include "coordinator/api_rpc/service_state.h"

#include "common/env/env.h"
#include "common/loop/loop.h"

int64_t service_now_ms(const struct service *service)
{
    return loop_now_ms(service->options.loop);
}

int64_t service_wall_ms(const struct service *service)
{
    const struct clock *clock = &service->options.env->clock;
    return clock->wall_ms(clock->self);
}

const struct cluster *service_cluster(struct service *service)
{
    return service->options.host.cluster(service->options.host.self);
}
