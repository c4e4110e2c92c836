#include "coordinator/store/logs.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/map.h"
#include "common/base/parse.h"
#include "common/base/str.h"
#include "coordinator/store/kept.h"

/* A segment is a file named by the position of its first byte, in 16 hex digits. Its lines:
 *
 *     # <uid> <next offset>                                     at the top: what is held of each
 *     <wall_ms> <rank> <generation> <uid> <offset> <o|e> <text>
 */

enum {
    LINE_HEAD_MAX = 128,
    BLOCK_BYTES = 64 << 10,
    RECORD_MAX_BYTES = LOGS_LINE_MAX_BYTES + LINE_HEAD_MAX,
    JOBS_OPEN_MAX = 4096, /* with their state in memory; others are read again when needed */
};

struct job_log {
    uint64_t first, segment, end; /* positions: of the log, of its last segment, of its end */
    struct map next;              /* uid -> next offset, as a pointer-sized number */
    struct map whole;             /* by uid: workers with complete output; any value */
    bool found_any;
};

struct logs {
    struct disk disk;
    char *dir;
    struct strmap jobs;
};

struct record {
    struct log_line line;
    uint64_t uid, offset;
};

int logs_new(const struct disk *disk, const char *data_dir, struct logs **ret, struct error *err)
{
    struct logs *logs = calloc(1, sizeof(*logs));
    if (!logs || asprintf(&logs->dir, "%s/logs", data_dir) < 0) {
        free(logs);
        return error_set(err, E_RESOURCE_EXHAUSTED, "out of memory");
    }
    logs->disk = *disk;
    *ret = logs;
    return 0;
}

static void job_log_free(struct job_log *log)
{
    map_fini(&log->next);
    map_fini(&log->whole);
    free(log);
}

static void forget_all(struct logs *logs)
{
    for (struct map_entry *e = strmap_first(&logs->jobs); e; e = map_next(e))
        job_log_free(e->value);
    strmap_fini(&logs->jobs);
}

void logs_free(struct logs *logs)
{
    if (!logs)
        return;
    forget_all(logs);
    free(logs->dir);
    free(logs);
}

static int segment_path(const struct logs *logs, const char *job, uint64_t start,
                        char ret[PATH_MAX])
{
    return str_printf(ret, PATH_MAX, "%s/%s/%016" PRIx64, logs->dir, job, start);
}

static uint64_t number(const char **at)
{
    uint64_t value = 0;
    while (**at >= '0' && **at <= '9')
        value = value * 10 + (uint64_t)(*(*at)++ - '0');
    while (**at == ' ')
        (*at)++;
    return value;
}

/* One line without its end. False for the heads of segments and for what a crash has cut. */
static bool parse_record(const char *text, struct record *ret)
{
    if (*text < '0' || *text > '9')
        return false;
    ret->line.wall_ms = (int64_t)number(&text);
    ret->line.rank = (uint32_t)number(&text);
    ret->line.generation = number(&text);
    ret->uid = number(&text);
    ret->offset = number(&text);
    if ((text[0] != 'o' && text[0] != 'e') || text[1] != ' ')
        return false;
    ret->line.is_stderr = text[0] == 'e';
    ret->line.is_stacks = ret->uid & LOGS_STACKS_UID;
    ret->line.text = text + 2;
    return true;
}

static void note_next(struct job_log *log, uint64_t uid, uint64_t next)
{
    if ((uintptr_t)map_get(&log->next, uid) < next)
        (void)map_set(&log->next, uid, (void *)(uintptr_t)next, NULL);
}

static void note_line(struct job_log *log, const char *line)
{
    struct record record;
    if (line[0] == '#' && line[1] == ' ') {
        const char *at = line + 2;
        uint64_t uid = number(&at);
        note_next(log, uid, number(&at));
    } else if (parse_record(line, &record)) {
        note_next(log, record.uid, record.offset + 1);
    }
}

/* Reads the last segment to learn what is held; a line cut by a crash gets its end. */
static int scan_segment(struct logs *logs, const char *job, struct job_log *log, struct error *err)
{
    char path[PATH_MAX], *data;
    size_t size, max = LOGS_SEGMENT_BYTES + 2 * RECORD_MAX_BYTES + (8 << 20);
    int rc = segment_path(logs, job, log->segment, path);
    if (!rc)
        rc = logs->disk.read_file(logs->disk.self, path, max, &data, &size, err);
    if (rc)
        return rc;
    bool whole = size == 0 || data[size - 1] == '\n';
    for (char *line = data, *end; line < data + size; line = end + 1) {
        end = memchr(line, '\n', (size_t)(data + size - line));
        if (!end)
            break;
        *end = 0;
        note_line(log, line);
    }
    free(data);
    log->end = log->segment + size;
    if (!whole) {
        rc = logs->disk.append_file(logs->disk.self, path, "\n", 1, err);
        if (!rc)
            log->end++;
    }
    return rc;
}

static int load_log(struct logs *logs, const char *job, struct job_log *log, struct error *err)
{
    char dir[PATH_MAX], **names = NULL;
    int rc = str_printf(dir, sizeof(dir), "%s/%s", logs->dir, job);
    if (!rc)
        rc = logs->disk.list(logs->disk.self, dir, &names, err);
    if (rc == E_NOT_FOUND) {
        error_clear(err);
        return 0;
    }
    if (rc)
        return rc;
    for (int i = 0; names[i]; i++) {
        char *end;
        uint64_t start = strtoull(names[i], &end, 16);
        if (strlen(names[i]) != 16 || *end)
            continue;
        if (!log->found_any)
            log->first = start;
        log->found_any = true;
        log->segment = start;
    }
    free(names);
    return log->found_any ? scan_segment(logs, job, log, err) : 0;
}

static int open_job(struct logs *logs, const char *job, struct job_log **ret, struct error *err)
{
    *ret = strmap_get(&logs->jobs, job);
    if (*ret)
        return 0;
    if (strmap_count(&logs->jobs) >= JOBS_OPEN_MAX)
        forget_all(logs);
    struct job_log *log = calloc(1, sizeof(*log));
    int rc =
        log ? load_log(logs, job, log, err) : error_set(err, E_RESOURCE_EXHAUSTED, "out of memory");
    if (!rc && strmap_set(&logs->jobs, job, log, NULL))
        rc = error_set(err, E_RESOURCE_EXHAUSTED, "out of memory");
    if (rc) {
        if (log)
            job_log_free(log);
        return error_wrap(err, "log of job %s", job);
    }
    *ret = log;
    return 0;
}

struct bounds { /* of a job's log */
    uint64_t job, segment;
};

static struct bounds bounds_of(int64_t max_bytes)
{
    uint64_t job =
        max_bytes > 0 && max_bytes < LOGS_JOB_MAX_BYTES ? (uint64_t)max_bytes : LOGS_JOB_MAX_BYTES;
    uint64_t segment = job / 4;
    if (segment > LOGS_SEGMENT_BYTES)
        segment = LOGS_SEGMENT_BYTES;
    if (segment < LOGS_SEGMENT_MIN_BYTES)
        segment = LOGS_SEGMENT_MIN_BYTES;
    return (struct bounds){job < 2 * segment ? 2 * segment : job, segment};
}

/* Remove the oldest segment when the log would become too long. */
static int drop_oldest(struct logs *logs, const char *job, struct job_log *log,
                       const struct bounds *bounds, struct error *err)
{
    char dir[PATH_MAX], path[PATH_MAX], **names = NULL;
    int rc = str_printf(dir, sizeof(dir), "%s/%s", logs->dir, job);
    if (!rc)
        rc = logs->disk.list(logs->disk.self, dir, &names, err);
    if (rc)
        return rc;
    for (int i = 0; !rc && names[i]; i++) {
        uint64_t start = strtoull(names[i], NULL, 16);
        log->first = start;
        if (log->end - start <= bounds->job - bounds->segment)
            break;
        rc = segment_path(logs, job, start, path);
        if (!rc)
            rc = logs->disk.remove_tree(logs->disk.self, path, err);
    }
    free(names);
    return rc;
}

static int start_segment(struct logs *logs, const char *job, struct job_log *log,
                         const struct bounds *bounds, struct error *err)
{
    char path[PATH_MAX];
    int rc = str_printf(path, sizeof(path), "%s/%s", logs->dir, job);
    if (!rc)
        rc = logs->disk.make_dirs(logs->disk.self, path, 0700, err);
    if (!rc && log->found_any)
        rc = drop_oldest(logs, job, log, bounds, err);
    if (rc)
        return rc;
    struct buf head;
    buf_init(&head, 8 << 20);
    for (struct map_entry *e = map_first(&log->next); e; e = map_next(e))
        (void)buf_printf(&head, "# %" PRIu64 " %" PRIuPTR "\n", e->key, (uintptr_t)e->value);
    rc = segment_path(logs, job, log->end, path);
    if (!rc)
        rc = logs->disk.append_file(logs->disk.self, path, buf_cstr(&head), head.size, err);
    if (!rc) {
        log->segment = log->end;
        log->end += head.size;
        log->found_any = true;
    }
    buf_fini(&head);
    return rc;
}

/* As much of the text as a line may have, cut between characters, without line ends. */
static void add_text(struct buf *out, const char *text)
{
    size_t size = strlen(text);
    if (size > LOGS_LINE_MAX_BYTES) {
        size = LOGS_LINE_MAX_BYTES;
        while (size > 0 && ((unsigned char)text[size] & 0xc0) == 0x80)
            size--;
    }
    size_t start = out->size;
    if (buf_append(out, text, size))
        return;
    for (size_t i = start; i < out->size; i++)
        if (out->data[i] == '\n' || out->data[i] == '\r')
            out->data[i] = ' ';
}

int logs_append(struct logs *logs, const char *job, const struct logs_chunk *chunk,
                struct error *err)
{
    struct job_log *log;
    int rc = open_job(logs, job, &log, err);
    if (rc)
        return rc;
    uint64_t held = (uintptr_t)map_get(&log->next, chunk->uid);
    struct bounds bounds = bounds_of(chunk->max_bytes);
    struct buf out;
    buf_init(&out, BUF_DEFAULT_MAX_BYTES);
    for (int i = 0; i < chunk->count; i++) {
        const struct log_line *line = &chunk->lines[i];
        uint64_t offset = chunk->offset + (uint64_t)i;
        if (offset < held)
            continue;
        (void)buf_printf(&out, "%" PRId64 " %u %" PRIu64 " %" PRIu64 " %" PRIu64 " %c ",
                         line->wall_ms < 0 ? 0 : line->wall_ms, line->rank, line->generation,
                         chunk->uid, offset, line->is_stderr ? 'e' : 'o');
        add_text(&out, line->text);
        (void)buf_char(&out, '\n');
    }
    if (buf_failed(&out))
        rc = error_set(err, E_RESOURCE_EXHAUSTED, "log of job %s: chunk is too large", job);
    if (!rc && out.size > 0 &&
        (!log->found_any || log->end - log->segment + out.size > bounds.segment))
        rc = start_segment(logs, job, log, &bounds, err);
    char path[PATH_MAX];
    if (!rc && out.size > 0)
        rc = segment_path(logs, job, log->segment, path);
    if (!rc && out.size > 0)
        rc = logs->disk.append_file(logs->disk.self, path, out.data, out.size, err);
    if (!rc) {
        log->end += out.size;
        note_next(log, chunk->uid, chunk->offset + (uint64_t)chunk->count);
        if (chunk->last)
            (void)map_set(&log->whole, chunk->uid, log, NULL);
    } else if (strmap_remove(&logs->jobs, job)) {
        job_log_free(log); /* a part may have been written: look at the disk again next time */
    }
    buf_fini(&out);
    return rc;
}

int64_t logs_size(const struct logs *logs, const char *job)
{
    const struct job_log *open = strmap_get(&logs->jobs, job);
    char dir[PATH_MAX], path[PATH_MAX], **names = NULL;
    uint64_t first = UINT64_MAX, last = 0;
    if (open)
        return open->found_any ? (int64_t)(open->end - open->first) : 0;
    if (str_printf(dir, sizeof(dir), "%s/%s", logs->dir, job) ||
        logs->disk.list(logs->disk.self, dir, &names, NULL) < 0)
        return 0;
    for (int i = 0; names[i]; i++) {
        last = strtoull(names[i], NULL, 16);
        first = last < first ? last : first;
    }
    bool any = names[0];
    free(names);
    if (!any || segment_path(logs, job, last, path))
        return 0;
    return (int64_t)(last - first + kept_measure(&logs->disk, path, LOGS_JOB_MAX_BYTES));
}

bool logs_whole(const struct logs *logs, const char *job, uint64_t uid)
{
    const struct job_log *log = strmap_get(&logs->jobs, job);
    return log && map_get(&log->whole, uid);
}

int logs_forget(struct logs *logs, const char *job, struct error *err)
{
    char path[PATH_MAX];
    struct job_log *log = strmap_remove(&logs->jobs, job);
    if (log)
        job_log_free(log);
    if (str_printf(path, sizeof(path), "%s/%s", logs->dir, job))
        return error_set(err, E_INVALID_ARGUMENT, "path too long");
    return logs->disk.remove_tree(logs->disk.self, path, err);
}

struct reader { /* of one read */
    struct logs *logs;
    const char *job;
    const struct job_log *log;
    char **segments;
    struct arena *arena;
    char block[BLOCK_BYTES + RECORD_MAX_BYTES];
};

/* The segment of a position: the last one that starts at or before it. */
static uint64_t segment_of(const struct reader *reader, uint64_t position)
{
    uint64_t found = reader->log->first;
    for (int i = 0; reader->segments[i]; i++) {
        uint64_t start = strtoull(reader->segments[i], NULL, 16);
        if (start <= position)
            found = start;
    }
    return found;
}

/* Where the next segment starts, or the log ends. */
static uint64_t segment_after(const struct reader *reader, uint64_t position)
{
    for (int i = 0; reader->segments[i]; i++) {
        uint64_t start = strtoull(reader->segments[i], NULL, 16);
        if (start > position)
            return start;
    }
    return reader->log->end;
}

/* Up to `max` bytes from a position, not beyond its segment. */
static int read_at(struct reader *reader, uint64_t position, size_t max, size_t *ret_size,
                   struct error *err)
{
    char path[PATH_MAX];
    uint64_t segment = segment_of(reader, position);
    int rc = segment_path(reader->logs, reader->job, segment, path);
    struct disk *disk = &reader->logs->disk;
    if (rc)
        return rc;
    return disk->read_range(disk->self, path, position - segment, reader->block, max, ret_size,
                            err);
}

static bool add_line(struct reader *reader, const struct record *record, struct logs_page *page,
                     int *capacity)
{
    if (page->count == *capacity) {
        int grown = *capacity ? *capacity * 2 : 256;
        struct log_line *lines = arena_array(reader->arena, (size_t)grown, sizeof(*lines));
        if (!lines)
            return false;
        if (page->count)
            memcpy(lines, page->lines, sizeof(*lines) * (size_t)page->count);
        page->lines = lines;
        *capacity = grown;
    }
    struct log_line *line = &page->lines[page->count];
    *line = record->line;
    line->text = arena_strdup(reader->arena, record->line.text);
    if (line->text != NULL)
        page->count++;
    return line->text;
}

/* Forward from a position: whole lines of the wanted rank until enough was given or looked at. */
static int read_forward(struct reader *reader, const struct logs_query *query, size_t max,
                        struct logs_page *page, struct error *err)
{
    int capacity = page->count;
    size_t given = 0, scanned = 0;
    while (page->cursor < reader->log->end && given < max && scanned < LOGS_SCAN_MAX_BYTES) {
        size_t size = 0;
        int rc = read_at(reader, page->cursor, sizeof(reader->block) - 1, &size, err);
        if (rc)
            return rc;
        uint64_t left = reader->log->end - page->cursor;
        size = size > left ? (size_t)left : size;
        reader->block[size] = 0;
        size_t used = 0;
        for (char *end; given < max && (end = memchr(reader->block + used, '\n', size - used));) {
            struct record record;
            const char *text = reader->block + used;
            *end = 0;
            if (parse_record(text, &record) &&
                (query->rank < 0 || record.line.rank == (uint32_t)query->rank)) {
                if (!add_line(reader, &record, page, &capacity))
                    return error_set(err, E_RESOURCE_EXHAUSTED, "log: page is too large");
                given += (size_t)(end - text);
            }
            used = (size_t)(end - reader->block) + 1;
        }
        if (used == 0 && given >= max)
            break;
        if (used == 0) /* the file has a wrong length: continue after the damage */
            used = size ? size : (size_t)(segment_after(reader, page->cursor) - page->cursor);
        page->cursor += used;
        scanned += used;
    }
    return 0;
}

/* The position from which `lines` lines of the wanted rank follow, looking back a bounded way. */
static int find_tail(struct reader *reader, const struct logs_query *query, uint64_t *ret,
                     struct error *err)
{
    uint64_t position = reader->log->end, lowest = reader->log->first;
    uint32_t wanted =
        query->tail_lines > LOGS_TAIL_LINES_MAX ? LOGS_TAIL_LINES_MAX : query->tail_lines;
    uint32_t found = 0;
    size_t scanned = 0;
    *ret = position;
    while (position > lowest && found < wanted && scanned < LOGS_SCAN_MAX_BYTES) {
        uint64_t segment = segment_of(reader, position - 1), size = position - segment;
        size = size > BLOCK_BYTES ? BLOCK_BYTES : size;
        size_t got = 0;
        int rc = read_at(reader, position - size, (size_t)size, &got, err);
        if (rc)
            return rc;
        if (got < size)
            return error_set(err, E_DATA_LOSS, "log: segment is shorter than it was");
        reader->block[size] = 0;
        char *start = reader->block;
        char *first_end = memchr(start, '\n', (size_t)size - 1);
        if (position - size > segment && first_end)
            start = first_end + 1; /* begins inside a line: that is the next round's */
        char *end = reader->block + size - 1;
        while (end > start && found < wanted) {
            *end = 0;
            char *line = memrchr(start, '\n', (size_t)(end - start));
            line = line ? line + 1 : start;
            struct record record;
            if (parse_record(line, &record) &&
                (query->rank < 0 || record.line.rank == (uint32_t)query->rank)) {
                found++;
                *ret = position - size + (uint64_t)(line - reader->block);
            }
            end = line - 1;
        }
        scanned += (size_t)size;
        position -= size - (uint64_t)(start - reader->block);
    }
    return 0;
}

static int start_position(struct reader *reader, const struct logs_query *query,
                          struct logs_page *page, struct error *err)
{
    if (query->cursor == 0 && query->tail_lines > 0)
        return find_tail(reader, query, &page->cursor, err);
    page->cursor = query->cursor;
    if (page->cursor > reader->log->end)
        page->cursor = reader->log->end;
    if (page->cursor >= reader->log->first)
        return 0;
    page->cursor = reader->log->first;
    struct record notice = {.line = {.text = "[muster: older output was dropped here]"}};
    int capacity = 0;
    return add_line(reader, &notice, page, &capacity)
               ? 0
               : error_set(err, E_RESOURCE_EXHAUSTED, "log: page is too large");
}

static int read_page(struct reader *reader, const struct logs_query *query, struct logs_page *page,
                     struct error *err)
{
    size_t max = query->max_bytes ? query->max_bytes : LOGS_READ_DEFAULT_BYTES;
    max = max > LOGS_READ_MAX_BYTES ? LOGS_READ_MAX_BYTES : max;
    int rc = start_position(reader, query, page, err);
    if (!rc)
        rc = read_forward(reader, query, max, page, err);
    page->at_end = page->cursor >= reader->log->end;
    return rc;
}

int logs_read(struct logs *logs, const char *job, const struct logs_query *query,
              struct arena *arena, struct logs_page *ret, struct error *err)
{
    struct job_log *log;
    int rc = open_job(logs, job, &log, err);
    *ret = (struct logs_page){.at_end = true};
    if (rc || !log->found_any)
        return rc;
    char dir[PATH_MAX];
    struct reader *reader = malloc(sizeof(*reader));
    if (!reader)
        return error_set(err, E_RESOURCE_EXHAUSTED, "out of memory");
    reader->logs = logs;
    reader->job = job;
    reader->log = log;
    reader->arena = arena;
    reader->segments = NULL;
    rc = str_printf(dir, sizeof(dir), "%s/%s", logs->dir, job);
    if (!rc)
        rc = logs->disk.list(logs->disk.self, dir, &reader->segments, err);
    if (!rc)
        rc = read_page(reader, query, ret, err);
    free(reader->segments);
    free(reader);
    if (rc)
        return error_wrap(err, "log of job %s", job);
    return 0;
}
