#include "coordinator/store/metrics.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/list.h"
#include "common/base/map.h"
#include "common/base/parse.h"
#include "common/base/str.h"
#include "coordinator/model/cluster.h"
#include "coordinator/store/kept.h"
#include "coordinator/store/series.h"

/* Of a tenant: its jobs in memory, with and without their points, the least used first. */
struct owner {
    struct list whole, dropped;
    int64_t bytes;
    int jobs;
};

struct job_metrics {
    char id[JOB_ID_MAX + 1];
    struct owner *owner;
    struct list link;
    struct strmap series;
    size_t file_bytes;
    int64_t bytes; /* in memory, as counted for its owner */
    bool dropped;  /* its series have no points: they are read from the file when asked for */
};

struct metrics {
    struct disk disk;
    char *dir;
    struct strmap jobs;
    struct strmap owners; /* tenant -> struct owner */
    int64_t bytes;
};

int metrics_new(const struct disk *disk, const char *data_dir, struct metrics **ret,
                struct error *err)
{
    struct metrics *metrics = calloc(1, sizeof(*metrics));
    if (!metrics || asprintf(&metrics->dir, "%s/metrics", data_dir) < 0) {
        free(metrics);
        return error_set(err, E_RESOURCE_EXHAUSTED, "out of memory");
    }
    metrics->disk = *disk;
    *ret = metrics;
    return 0;
}

/* Free a job that no owner counts any more. */
static void free_job(struct job_metrics *job)
{
    for (struct map_entry *e = strmap_first(&job->series); e; e = map_next(e))
        series_free(e->value);
    strmap_fini(&job->series);
    free(job);
}

void metrics_free(struct metrics *metrics)
{
    if (!metrics)
        return;
    for (struct map_entry *e = strmap_first(&metrics->jobs); e; e = map_next(e))
        free_job(e->value);
    strmap_free_values(&metrics->owners);
    strmap_fini(&metrics->jobs);
    free(metrics->dir);
    free(metrics);
}

static struct series *series_of(struct job_metrics *job, const char *name)
{
    struct series *series = strmap_get(&job->series, name);
    if (series || strmap_count(&job->series) >= METRICS_SERIES_MAX)
        return series;
    series = series_new();
    if (!series || strmap_set(&job->series, name, series, NULL)) {
        series_free(series);
        return NULL;
    }
    series->dropped = job->dropped;
    return series;
}

static const char stride_mark[] = "# stride ";

/* "# stride 16 loss": the points of this series that follow are what was kept at that stride. */
static void load_stride(struct job_metrics *job, char *line)
{
    int64_t stride;
    struct str rest = str_of(line + strlen(stride_mark)), number;
    if (!str_next(&rest, ' ', &number))
        return;
    ((char *)(uintptr_t)number.data)[number.size] = 0;
    struct series *series = metric_name_valid(rest.data) ? series_of(job, rest.data) : NULL;
    if (series && !parse_i64(number.data, 1, INT64_MAX, &stride, NULL))
        series->stride = (uint64_t)stride;
}

/* "step,wall_ms,generation,name,value"; a line cut by a crash is skipped. */
static void load_line(struct job_metrics *job, char *line)
{
    if (strncmp(line, stride_mark, strlen(stride_mark)) == 0) {
        load_stride(job, line);
        return;
    }
    struct str rest = str_of(line), part;
    int64_t numbers[3];
    for (int i = 0; i < 3; i++) {
        if (!str_next(&rest, ',', &part))
            return;
        ((char *)(uintptr_t)part.data)[part.size] = 0;
        if (parse_i64(part.data, 0, INT64_MAX, &numbers[i], NULL))
            return;
    }
    double value;
    if (!str_next(&rest, ',', &part))
        return;
    ((char *)(uintptr_t)part.data)[part.size] = 0;
    char *end;
    value = strtod(rest.data, &end);
    if (end == rest.data || *end || !metric_name_valid(part.data))
        return;
    struct series *series = series_of(job, part.data);
    struct metric_sample sample = {
        .name = part.data,
        .step = (uint64_t)numbers[0],
        .wall_ms = numbers[1],
        .generation = (uint64_t)numbers[2],
        .value = value,
    };
    if (series)
        (void)series_add(series, &sample);
}

static int path_of(const struct metrics *metrics, const char *job, char ret[PATH_MAX])
{
    return str_printf(ret, PATH_MAX, "%s/%s.csv", metrics->dir, job);
}

static int load_job(struct metrics *metrics, const char *id, struct job_metrics *job,
                    struct error *err)
{
    char path[PATH_MAX], *data;
    size_t size;
    int rc = path_of(metrics, id, path);
    if (!rc)
        rc = metrics->disk.read_file(metrics->disk.self, path, METRICS_FILE_MAX_BYTES * 2, &data,
                                     &size, err);
    if (rc == E_NOT_FOUND) {
        error_clear(err);
        return 0;
    }
    if (rc)
        return rc;
    for (char *line = data, *end; (end = memchr(line, '\n', (size_t)(data + size - line)));
         line = end + 1) {
        *end = 0;
        load_line(job, line);
    }
    bool whole = size == 0 || data[size - 1] == '\n';
    free(data);
    job->file_bytes = size;
    return whole ? 0 : metrics->disk.append_file(metrics->disk.self, path, "\n", 1, err);
}

static void count_bytes(struct metrics *metrics, struct job_metrics *job)
{
    int64_t bytes = (int64_t)sizeof(*job);
    for (struct map_entry *e = strmap_first(&job->series); e; e = map_next(e))
        bytes += (int64_t)series_bytes(e->value);
    metrics->bytes += bytes - job->bytes;
    job->owner->bytes += bytes - job->bytes;
    job->bytes = bytes;
}

static void mark_used(struct job_metrics *job)
{
    list_remove(&job->link);
    list_push_back(job->dropped ? &job->owner->dropped : &job->owner->whole, &job->link);
}

static void forget_job(struct metrics *metrics, const char *id)
{
    struct job_metrics *job = strmap_remove(&metrics->jobs, id);
    if (!job)
        return;
    list_remove(&job->link);
    metrics->bytes -= job->bytes;
    job->owner->bytes -= job->bytes;
    job->owner->jobs--;
    free_job(job);
}

/* False if there is nothing left to take from it. */
static bool drop_least_used(struct metrics *metrics, struct owner *owner)
{
    struct job_metrics *whole = list_first(&owner->whole, struct job_metrics, link);
    struct job_metrics *dropped = list_first(&owner->dropped, struct job_metrics, link);
    if (!whole) {
        if (dropped)
            forget_job(metrics, dropped->id);
        return dropped;
    }
    for (struct map_entry *e = strmap_first(&whole->series); e; e = map_next(e))
        series_drop(e->value);
    whole->dropped = true;
    mark_used(whole);
    count_bytes(metrics, whole);
    return true;
}

static struct owner *largest(const struct metrics *metrics)
{
    struct owner *ret = NULL;
    for (struct map_entry *e = strmap_first(&metrics->owners); e; e = map_next(e))
        if (!ret || ((struct owner *)e->value)->bytes > ret->bytes)
            ret = e->value;
    return ret;
}

/* A tenant above its limit loses points of its own; if all together are above the limit, the tenant
 * with the most does. Points removed from memory are still in the file. */
static void limit_memory(struct metrics *metrics, const struct metrics_job *of_job)
{
    struct job_metrics *job = strmap_get(&metrics->jobs, of_job->id);
    struct owner *owner = job ? job->owner : NULL;
    if (!job)
        return;
    count_bytes(metrics, job);
    while (owner->jobs > METRICS_JOBS_MAX && drop_least_used(metrics, owner))
        ;
    while (of_job->memory_bytes > 0 && owner->bytes > of_job->memory_bytes &&
           drop_least_used(metrics, owner))
        ;
    while (metrics->bytes > METRICS_MEMORY_MAX_BYTES && drop_least_used(metrics, largest(metrics)))
        ;
}

static struct owner *owner_of(struct metrics *metrics, const char *tenant)
{
    struct owner *owner = strmap_get(&metrics->owners, tenant);
    if (owner)
        return owner;
    owner = calloc(1, sizeof(*owner));
    if (!owner || strmap_set(&metrics->owners, tenant, owner, NULL)) {
        free(owner);
        return NULL;
    }
    list_init(&owner->whole);
    list_init(&owner->dropped);
    return owner;
}

static int read_job(struct metrics *metrics, const struct metrics_job *of_job, struct error *err)
{
    struct owner *owner = owner_of(metrics, of_job->tenant);
    struct job_metrics *job = owner ? calloc(1, sizeof(*job)) : NULL;
    int rc = job && !str_copy(job->id, sizeof(job->id), of_job->id)
                 ? load_job(metrics, of_job->id, job, err)
                 : error_set(err, E_RESOURCE_EXHAUSTED, "out of memory");
    if (!rc && strmap_set(&metrics->jobs, of_job->id, job, NULL))
        rc = error_set(err, E_RESOURCE_EXHAUSTED, "out of memory");
    if (rc) {
        if (job)
            free_job(job);
        return error_wrap(err, "metrics of job %s", of_job->id);
    }
    job->owner = owner;
    owner->jobs++;
    list_init(&job->link);
    count_bytes(metrics, job);
    return 0;
}

/* With its points if `whole`; else without them is enough. */
static int open_job(struct metrics *metrics, const struct metrics_job *of_job, bool whole,
                    struct job_metrics **ret, struct error *err)
{
    struct job_metrics *job = strmap_get(&metrics->jobs, of_job->id);
    if (job && job->dropped && whole) {
        forget_job(metrics, of_job->id);
        job = NULL;
    }
    int rc = job ? 0 : read_job(metrics, of_job, err);
    if (rc)
        return rc;
    *ret = strmap_get(&metrics->jobs, of_job->id);
    mark_used(*ret);
    return 0;
}

static void print_point(struct buf *out, const char *name, uint64_t generation,
                        const struct metric_point *point)
{
    char value[FORMAT_MAX];
    (void)buf_printf(out, "%" PRIu64 ",%" PRId64 ",%" PRIu64 ",%s,%s\n", point->step,
                     point->wall_ms < 0 ? 0 : point->wall_ms, generation, name,
                     format_f64(point->value, value));
}

/* The new content of a file from the points in memory. Of long series only every second point is
 * written. This is at most half of a file's limit, so the next rewrite is far away. */
static void print_series(struct job_metrics *job, struct buf *out)
{
    for (struct map_entry *e = strmap_first(&job->series); e; e = map_next(e)) {
        struct series *series = e->value;
        (void)buf_printf(out, "%s%" PRIu64 " %s\n", stride_mark, series->stride, e->name);
        for (int i = 0; i < series->count; i++)
            print_point(out, e->name, series->generation, &series->points[i]);
        if (series->has_last)
            print_point(out, e->name, series->generation, &series->last);
    }
}

static void thin_beyond(struct job_metrics *job, int count)
{
    for (struct map_entry *e = strmap_first(&job->series); e; e = map_next(e))
        if (((struct series *)e->value)->count > count)
            series_thin(e->value);
}

static int rewrite_file(struct metrics *metrics, const char *path, struct job_metrics *job,
                        size_t max_bytes, struct error *err)
{
    struct buf out;
    int points = METRICS_POINTS_MAX / 2;
    do {
        thin_beyond(job, points);
        buf_init(&out, METRICS_FILE_MAX_BYTES);
        print_series(job, &out);
        points /= 2;
        if ((buf_failed(&out) || out.size > max_bytes / 2) && points >= METRICS_POINTS_MIN)
            buf_fini(&out);
        else
            break;
    } while (true);
    int rc = buf_failed(&out) ? error_set(err, E_RESOURCE_EXHAUSTED, "%s: too many series", path)
                              : metrics->disk.write_file(metrics->disk.self, path, out.data,
                                                         out.size, 0600, err);
    if (!rc)
        job->file_bytes = out.size;
    buf_fini(&out);
    return rc;
}

int64_t metrics_size(const struct metrics *metrics, const char *id)
{
    const struct job_metrics *job = strmap_get(&metrics->jobs, id);
    char path[PATH_MAX];
    if (job)
        return (int64_t)job->file_bytes;
    return path_of(metrics, id, path)
               ? 0
               : (int64_t)kept_measure(&metrics->disk, path, METRICS_FILE_MAX_BYTES);
}

/* Rewrite a file that would grow too large from memory. Points not in memory are read first, and
 * samples not yet in the file are added. */
static int rewrite_with(struct metrics *metrics, const struct metrics_job *of_job,
                        const struct buf *out, size_t max_bytes, struct error *err)
{
    struct job_metrics *job = strmap_get(&metrics->jobs, of_job->id);
    char path[PATH_MAX];
    int rc = path_of(metrics, of_job->id, path);
    if (!rc && job->dropped) {
        rc = metrics->disk.append_file(metrics->disk.self, path, out->data, out->size, err);
        if (!rc)
            rc = open_job(metrics, of_job, true, &job, err);
    }
    if (rc)
        return rc;
    return rewrite_file(metrics, path, job, max_bytes, err);
}

static int write_samples(struct metrics *metrics, const struct metrics_job *of_job,
                         const struct buf *out, size_t max_bytes, struct error *err)
{
    struct job_metrics *job = strmap_get(&metrics->jobs, of_job->id);
    char path[PATH_MAX];
    int rc = path_of(metrics, of_job->id, path);
    if (!rc && job->file_bytes + out->size > max_bytes)
        return rewrite_with(metrics, of_job, out, max_bytes, err);
    if (!rc && job->file_bytes == 0)
        rc = metrics->disk.make_dirs(metrics->disk.self, metrics->dir, 0700, err);
    if (!rc)
        rc = metrics->disk.append_file(metrics->disk.self, path, out->data, out->size, err);
    if (!rc)
        job->file_bytes += out->size;
    return rc;
}

static void add_samples(struct job_metrics *job, const struct metric_sample *samples,
                        int samples_count, struct buf *out)
{
    for (int i = 0; i < samples_count; i++) {
        const struct metric_sample *sample = &samples[i];
        struct series *series =
            metric_name_valid(sample->name) ? series_of(job, sample->name) : NULL;
        if (series && sample->step <= INT64_MAX && sample->generation <= INT64_MAX &&
            series_add(series, sample))
            print_point(out, sample->name, sample->generation,
                        &(struct metric_point){sample->step, sample->value, sample->wall_ms});
    }
}

int metrics_append(struct metrics *metrics, const struct metrics_job *of_job,
                   const struct metric_sample *samples, int samples_count, struct error *err)
{
    struct job_metrics *job;
    size_t max = of_job->file_bytes > 0 && of_job->file_bytes < METRICS_FILE_MAX_BYTES
                     ? (size_t)of_job->file_bytes
                     : METRICS_FILE_MAX_BYTES;
    int rc = open_job(metrics, of_job, false, &job, err);
    if (rc)
        return rc;
    struct buf out;
    buf_init(&out, BUF_DEFAULT_MAX_BYTES);
    add_samples(job, samples, samples_count, &out);
    if (buf_failed(&out))
        rc =
            error_set(err, E_RESOURCE_EXHAUSTED, "metrics of job %s: too many at once", of_job->id);
    else if (out.size > 0)
        rc = write_samples(metrics, of_job, &out, max, err);
    buf_fini(&out);
    if (rc)
        forget_job(metrics,
                   of_job->id); /* memory must not have what the file lost: repeats will arrive */
    else
        limit_memory(metrics, of_job);
    return rc;
}

int64_t metrics_memory(const struct metrics *metrics, const char *tenant)
{
    const struct owner *owner = tenant ? strmap_get(&metrics->owners, tenant) : NULL;
    return tenant ? owner ? owner->bytes : 0 : metrics->bytes;
}

int metrics_forget(struct metrics *metrics, const char *id, struct error *err)
{
    char path[PATH_MAX];
    forget_job(metrics, id);
    int rc = path_of(metrics, id, path);
    if (rc)
        return error_set(err, rc, "path too long");
    return metrics->disk.remove_tree(metrics->disk.self, path, err);
}

/* Evenly chosen among those after the step; the newest sample is always the last point. */
static bool pick_points(const struct series *series, const struct metrics_query *query,
                        struct arena *arena, struct metric_series *ret)
{
    uint32_t max = query->max_points ? query->max_points : METRICS_READ_DEFAULT_POINTS;
    int first = 0;
    while (first < series->count && query->after_step > 0 &&
           series->points[first].step <= query->after_step)
        first++;
    int available = series->count - first;
    bool newest = series->has_last && series->last.step > query->after_step &&
                  (available == 0 || series->points[series->count - 1].step != series->last.step);
    int wanted = max > METRICS_POINTS_MAX ? METRICS_POINTS_MAX : (int)max;
    if (wanted < 2)
        wanted = 2;
    int take = available < wanted - newest ? available : wanted - newest;
    ret->points = arena_array(arena, (size_t)take + 1, sizeof(*ret->points));
    if (!ret->points)
        return false;
    for (int i = 0; i < take; i++) {
        int64_t at = take > 1 ? (int64_t)i * (available - 1) / (take - 1) : 0;
        ret->points[ret->count++] = series->points[first + (int)at];
    }
    if (newest)
        ret->points[ret->count++] = series->last;
    return true;
}

static bool asked_for(const struct metrics_query *query, const char *name)
{
    struct str rest = str_of(query->names), part;
    bool by_name = query->name && *query->name, by_list = query->names && *query->names;
    if (by_name && strcmp(query->name, name) == 0)
        return true;
    while (by_list && str_next(&rest, ',', &part))
        if (part.size == strlen(name) && memcmp(part.data, name, part.size) == 0)
            return true;
    return !by_name && !by_list;
}

int metrics_read(struct metrics *metrics, const struct metrics_job *of_job,
                 const struct metrics_query *query, struct arena *arena, struct metric_series **ret,
                 int *ret_count, struct error *err)
{
    struct job_metrics *job;
    int rc = open_job(metrics, of_job, true, &job, err), found = 0;
    if (rc)
        return rc;
    struct metric_series *list = arena_array(arena, strmap_count(&job->series), sizeof(*list));
    for (struct map_entry *e = strmap_first(&job->series); list && e; e = map_next(e)) {
        if (!asked_for(query, e->name))
            continue;
        list[found].name = arena_strdup(arena, e->name);
        if (!list[found].name || !pick_points(e->value, query, arena, &list[found]))
            list = NULL;
        found++;
    }
    limit_memory(metrics, of_job);
    if (!list)
        return error_set(err, E_RESOURCE_EXHAUSTED, "metrics of job %s: too many", of_job->id);
    *ret = list;
    *ret_count = found;
    return 0;
}
