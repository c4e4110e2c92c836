#include "agent/core/pace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool pace_add(struct pace *pace, const struct pace_mark *mark)
{
    double seconds = mark->seconds - pace->mark.seconds;
    bool follows = pace->marked && !mark->fresh && mark->step > pace->mark.step && seconds >= 0;
    if (follows && seconds < PACE_LEAST_S)
        return false; /* the next mark is longer after the one before */
    if (follows) {
        double steps = (double)(mark->step - pace->mark.step);
        double waited = mark->waited_seconds - pace->mark.waited_seconds;
        double worked = waited < 0         ? NAN
                        : waited > seconds ? 0
                                           : seconds - waited; /* NAN stays it */
        uint64_t at = pace->count++ % PACE_DURATIONS_MAX;
        pace->step_ms[at] = seconds * 1000 / steps;
        pace->work_ms[at] = worked * 1000 / steps;
    }
    pace->mark = *mark;
    pace->marked = true;
    return follows;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* NAN if one of them is. */
static double median(const double *values, int count)
{
    double sorted[PACE_DURATIONS_MAX];
    for (int i = 0; i < count; i++)
        if (isnan(values[i]))
            return NAN;
    memcpy(sorted, values, (size_t)count * sizeof(*sorted));
    qsort(sorted, (size_t)count, sizeof(*sorted), by_value);
    return (sorted[(count - 1) / 2] + sorted[count / 2]) / 2;
}

void pace_read(const struct pace *pace, struct pace_medians *ret)
{
    int count = pace->count < PACE_DURATIONS_MAX ? (int)pace->count : PACE_DURATIONS_MAX;
    *ret = (struct pace_medians){.timed = count, .work_ms = NAN};
    if (!count)
        return;
    ret->step_ms = median(pace->step_ms, count);
    ret->work_ms = median(pace->work_ms, count);
}
