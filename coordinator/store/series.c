#include "coordinator/store/series.h"

#include <stdlib.h>

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

bool series_add(struct series *series, const struct metric_sample *sample)
{
    if (series->has_last && sample->step <= series->last.step) {
        if (sample->generation <= series->generation)
            return false;
        while (series->count > 0 && series->points[series->count - 1].step >= sample->step)
            series->count--;
    }
    if (series->has_last && sample->generation < series->generation)
        return false; /* a stale worker's */
    series->generation = sample->generation;
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
