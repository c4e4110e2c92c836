#include "cli/sim_trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/sim_input.h"
#include "common/base/parse.h"
#include "common/base/str.h"

enum { FIELDS_MAX = 32, FIELD_MAX = 96 };

struct lines {
    const char *path;
    char *text, *at;
    int number;
};

/* The next line that is neither empty nor begins with `comment`; NULL at the end. */
static char *next_line(struct lines *lines, char comment)
{
    while (lines->at && *lines->at) {
        char *line = lines->at, *end = strchr(line, '\n');
        lines->at = end ? end + 1 : NULL;
        if (end)
            *end = 0;
        lines->number++;
        line[strcspn(line, "\r")] = 0;
        line += strspn(line, " \t");
        if (*line && *line != comment)
            return line;
    }
    return NULL;
}

static int split_line(char *line, const char *by, bool runs, char *ret[FIELDS_MAX])
{
    int count = 0;
    while (count < FIELDS_MAX && *line) {
        if (runs)
            line += strspn(line, by);
        if (!*line)
            break;
        ret[count++] = line;
        line += strcspn(line, by);
        if (*line)
            *line++ = 0;
    }
    return count;
}

static int fail_at_line(const struct lines *lines, struct error *err, const char *what,
                        const char *word)
{
    error_set(err, E_INVALID_ARGUMENT, "%s:%d: %s '%.60s'", lines->path, lines->number, what, word);
    return E_INVALID_ARGUMENT;
}

/* CSV: a line of names, then values. Times are seconds, or durations with a unit. */

static const char *const columns[] = {"submit",  "duration", "nodes",    "nodes_min",
                                      "workers", "slots",    "priority", "max_runtime",
                                      "tenant",  "name",     NULL};
enum column {
    SUBMIT,
    DURATION,
    NODES,
    NODES_MIN,
    WORKERS,
    SLOTS,
    PRIORITY,
    MAX_RUNTIME,
    TENANT,
    NAME,
};

static int read_ms(const char *word, int64_t *ret)
{
    double seconds;
    if (parse_f64(word, &seconds, NULL))
        return parse_duration(word, ret, NULL);
    *ret = sim_ms(seconds * 1000);
    return seconds >= 0 ? 0 : E_INVALID_ARGUMENT;
}

static int read_int(const char *word, int64_t min, int *ret)
{
    int64_t value;
    int rc = parse_i64(word, min, SIM_COUNT_MAX, &value, NULL);
    if (!rc)
        *ret = (int)value;
    return rc;
}

static int set_column(struct rehearsal_job *job, enum column column, const char *word)
{
    switch (column) {
    case SUBMIT:
        return read_ms(word, &job->submit_ms);
    case DURATION:
        return read_ms(word, &job->duration_ms);
    case NODES:
        return read_int(word, 1, &job->nodes_max);
    case NODES_MIN:
        return read_int(word, 1, &job->nodes_min);
    case WORKERS:
        return read_int(word, 1, &job->workers_per_node);
    case SLOTS:
        return read_int(word, 1, &job->slots);
    case PRIORITY:
        return read_int(word, -1000, &job->priority);
    case MAX_RUNTIME:
        return read_ms(word, &job->max_runtime_ms);
    case TENANT:
        return str_copy(job->tenant, sizeof(job->tenant), word);
    case NAME:
        return str_copy(job->name, sizeof(job->name), word);
    }
    return E_INVALID_ARGUMENT;
}

static int read_header(struct lines *lines, enum column ret[FIELDS_MAX], int *ret_count,
                       struct error *err)
{
    char *words[FIELDS_MAX], *line = next_line(lines, '#');
    int count = line ? split_line(line, ",", false, words) : 0;
    for (int i = 0; i < count; i++) {
        int at = 0;
        while (columns[at] && strcmp(columns[at], words[i]) != 0)
            at++;
        if (!columns[at])
            return fail_at_line(lines, err, "unknown column", words[i]);
        ret[i] = (enum column)at;
    }
    *ret_count = count;
    return count ? 0 : fail_at_line(lines, err, "no line with the names of its columns", "");
}

static int read_row(struct lines *lines, char *line, const enum column *names, int count,
                    struct rehearsal *ret, struct error *err)
{
    char *words[FIELDS_MAX];
    struct rehearsal_job *job = sim_add_job(ret, err);
    int found = split_line(line, ",", false, words);
    if (!job)
        return err->code;
    (void)str_printf(job->name, sizeof(job->name), "line-%d", lines->number);
    job->nodes_min = 0;
    for (int i = 0; i < found && i < count; i++)
        if (*words[i] && set_column(job, names[i], words[i]))
            return fail_at_line(lines, err, columns[names[i]], words[i]);
    if (job->nodes_min < 1 || job->nodes_min > job->nodes_max)
        job->nodes_min = job->nodes_max;
    return 0;
}

static int open_lines(const char *path, struct lines *ret, struct error *err)
{
    size_t size;
    *ret = (struct lines){.path = path};
    int rc = sim_read_text(path, &ret->text, &size, err);
    ret->at = ret->text;
    return rc;
}

int sim_read_csv(const char *path, int limit, struct rehearsal *ret, struct error *err)
{
    struct lines lines;
    enum column names[FIELDS_MAX];
    int count = 0;
    int rc = open_lines(path, &lines, err);
    if (!rc)
        rc = read_header(&lines, names, &count, err);
    for (char *line; !rc && (!limit || ret->jobs_count < limit) && (line = next_line(&lines, '#'));)
        rc = read_row(&lines, line, names, count, ret, err);
    free(lines.text);
    return rc;
}

/* The Standard Workload Format, version 2.2 (D. Feitelson, parallel workloads archive): 18 numbers
 * a line. Processors become workers: whole nodes where a job needs more than one has. */
enum { SWF_SUBMIT = 1, SWF_RUN = 3, SWF_USED = 4, SWF_WANTED = 7, SWF_TIME = 8, SWF_USER = 11 };

static int read_swf_line(struct lines *lines, char *line, int slots, struct rehearsal *ret,
                         struct error *err)
{
    char *words[FIELDS_MAX];
    double values[FIELDS_MAX] = {0};
    int count = split_line(line, " \t", true, words);
    for (int i = 0; i < count; i++)
        if (parse_f64(words[i], &values[i], NULL))
            return fail_at_line(lines, err, "no number:", words[i]);
    int wanted = sim_whole(values[values[SWF_WANTED] > 0 ? SWF_WANTED : SWF_USED], 0);
    if (count <= SWF_USER || wanted < 1 || values[SWF_RUN] < 0)
        return 0; /* cancelled before it ran */
    struct rehearsal_job *job = sim_add_job(ret, err);
    if (!job)
        return err->code;
    job->submit_ms = sim_ms(values[SWF_SUBMIT] * 1000);
    job->duration_ms = sim_ms(values[SWF_RUN] * 1000);
    job->workers_per_node = wanted < slots ? wanted : slots;
    job->nodes_min = job->nodes_max = (wanted + slots - 1) / slots;
    if (values[SWF_TIME] * 1000 > (double)job->duration_ms)
        job->max_runtime_ms = sim_ms(values[SWF_TIME] * 1000 + (double)ret->start_ms);
    (void)str_printf(job->name, sizeof(job->name), "swf-%d", lines->number);
    return 0;
}

int sim_read_swf(const char *path, int limit, struct rehearsal *ret, struct error *err)
{
    struct lines lines;
    int rc = open_lines(path, &lines, err);
    int slots = ret->nodes_count ? ret->nodes[0].slots : 1;
    for (char *line; !rc && (!limit || ret->jobs_count < limit) && (line = next_line(&lines, ';'));)
        rc = read_swf_line(&lines, line, slots > 0 ? slots : 1, ret, err);
    free(lines.text);
    return rc;
}
