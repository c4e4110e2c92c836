#include "coordinator/scheduler/forecast.h"

const char *effect_name(enum effect_kind kind)
{
    static const char *const names[] = {"starts", "shrinks", "moves", "restarts", "waits"};
    return names[kind];
}

void forecast_fini(struct forecast *forecast)
{
    placement_fini(&forecast->placement);
}

void forecast_add(struct forecast *forecast, const struct effect *effect)
{
    if (forecast->effects_count < PLAN_EFFECTS_MAX)
        forecast->effects[forecast->effects_count++] = *effect;
    else
        forecast->effects_left_out++;
}
