#include "coordinator/store/series.h"

#include <stdlib.h>
#include <string.h>

enum {
    CAPACITY_FIRST = 64,
    NAME_AND_PLACE_BYTES = 192, /* of a series' entry in its job's map */
};

struct series *series_new(void)
{
    struct series *series = calloc(1, sizeof(*series));
    if (series)
        series->stride = 1;
    return series;
}

void series_free(struct series *series)
{
    if (series)
        free(series->points);
    free(series);
}

void series_thin(struct series *series)
{
    int kept = 0;
    for (int i = 0; i < series->count; i += 2)
        series->points[kept++] = series->points[i];
    series->count = kept;
    series->stride *= 2;
}

static bool has_room(struct series *series)
{
    int capacity = series->capacity ? series->capacity * 2 : CAPACITY_FIRST;
    if (series->count < series->capacity)
        return true;
    struct metric_point *points = capacity > METRICS_POINTS_MAX
                                      ? NULL
                                      : realloc(series->points, sizeof(*points) * (size_t)capacity);
    if (!points)
        return false;
    series->points = points;
    series->capacity = capacity;
    return true;
}

static void keep_last(struct series *series)
{
    const struct metric_point *last = &series->last;
    if (series->count > 0 && last->step - series->points[series->count - 1].step < series->stride)
        return;
    if (!has_room(series))
        series_thin(series);
    if (has_room(series))
        series->points[series->count++] = *last;
}

/* The rank that reports has left, and its node reports after that of the rank that follows it. */
static bool add_late(struct series *series, const struct metric_sample *sample)
{
    if (sample->generation < series->late_generation || sample->step < series->late_from ||
        sample->step >= series->late_end)
        return false;
    series->late_from = sample->step + 1;
    if (series->dropped)
        return true;
    if (!has_room(series))
        series_thin(series);
    if (!has_room(series))
        return true;
    int at = series->count;
    while (at > 0 && series->points[at - 1].step > sample->step)
        at--;
    if (at > 0 && sample->step - series->points[at - 1].step < series->stride)
        return true;
    memmove(&series->points[at + 1], &series->points[at],
            sizeof(*series->points) * (size_t)(series->count++ - at));
    series->points[at] = (struct metric_point){sample->step, sample->value, sample->wall_ms};
    return true;
}

static void generation_begin(struct series *series, const struct metric_sample *sample)
{
    bool continues = series->has_last && series->last.step < sample->step;
    series->late_generation = series->generation;
    series->late_from = continues ? series->last.step + 1 : series->has_last ? sample->step : 0;
    series->late_end = sample->step;
    series->generation = sample->generation;
    while (series->count > 0 && series->points[series->count - 1].step >= sample->step)
        series->count--;
}

bool series_add(struct series *series, const struct metric_sample *sample)
{
    if (series->has_last && sample->generation < series->generation)
        return add_late(series, sample);
    if (!series->has_last || sample->generation > series->generation)
        generation_begin(series, sample);
    else if (sample->step <= series->last.step)
        return false;
    series->last = (struct metric_point){sample->step, sample->value, sample->wall_ms};
    series->has_last = true;
    if (!series->dropped)
        keep_last(series);
    return true;
}

void series_drop(struct series *series)
{
    free(series->points);
    series->points = NULL;
    series->count = series->capacity = 0;
    series->dropped = true;
}

size_t series_bytes(const struct series *series)
{
    return sizeof(*series) + NAME_AND_PLACE_BYTES +
           sizeof(*series->points) * (size_t)series->capacity;
}
