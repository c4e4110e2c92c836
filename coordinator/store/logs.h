/* Output of workers: per job an append-only log of lines under DATA/logs/<job>/, through env.disk.
 * A cursor is a byte position in the job's whole log, from its very first line to its end. It stays
 * valid while the log grows and when old parts are dropped.
 *
 * Lines are appended without sync: acknowledged lines survive the coordinator's death, but perhaps
 * not the machine's. The log is cut into segments. Beyond LOGS_JOB_MAX_BYTES the oldest segment is
 * dropped, and the next line read reports that. Repeats are recognised by (uid, offset in the
 * worker's output). Each segment starts with the known offsets of all workers, so a restart reads
 * one segment only.
 *
 * Owned by the service; loop thread only.
 */
#ifndef STORE_LOGS_H
#define STORE_LOGS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "common/base/error.h"
#include "common/env/env.h"

enum {
    LOGS_SEGMENT_BYTES = 16 << 20, /* less where less may be kept: a quarter of it */
    LOGS_SEGMENT_MIN_BYTES = 64 << 10,
    LOGS_JOB_MAX_BYTES = 256 << 20,
    LOGS_LINE_MAX_BYTES = 16 << 10, /* of text; longer lines are cut */
    LOGS_READ_DEFAULT_BYTES = 256 << 10,
    LOGS_READ_MAX_BYTES = 1 << 20, /* of lines given at once */
    LOGS_SCAN_MAX_BYTES = 8 << 20, /* looked at per read */
    LOGS_TAIL_LINES_MAX = 10000,
};

struct logs;

/* In the number of a worker: its lines are where its processes were, and not its own output. */
#define LOGS_STACKS_UID (1ULL << 63)

struct log_line {
    int64_t wall_ms;
    uint32_t rank;
    uint64_t generation;
    bool is_stderr;
    bool is_stacks;   /* of a read line: see LOGS_STACKS_UID */
    const char *text; /* without line end */
};

struct logs_chunk { /* consecutive lines of one worker */
    uint64_t uid;
    uint64_t offset; /* of the first line in that worker's output, in lines */
    const struct log_line *lines;
    int count;
    bool last;         /* its output is complete */
    int64_t max_bytes; /* of the job's log from now on; 0 = LOGS_JOB_MAX_BYTES */
};

struct logs_query {
    int rank;            /* -1 = all */
    uint64_t cursor;     /* 0 = from the start */
    uint32_t tail_lines; /* with cursor 0: only the last lines */
    uint32_t max_bytes;  /* 0 = LOGS_READ_DEFAULT_BYTES */
};

struct logs_page { /* lines live in the arena of the read */
    struct log_line *lines;
    int count;
    uint64_t cursor; /* pass on to go on */
    bool at_end;
};

int logs_new(const struct disk *disk, const char *data_dir, struct logs **ret, struct error *err);
void logs_free(struct logs *logs);

/* Lines already held are skipped. On failure nothing or a part was kept; a repeat mends it. */
int logs_append(struct logs *logs, const char *job, const struct logs_chunk *chunk,
                struct error *err);

/* True if the last line of this worker is stored. Unknown for workers that reported it before a
 * restart. */
bool logs_whole(const struct logs *logs, const char *job, uint64_t uid);

/* Bytes that are kept of a job. */
int64_t logs_size(const struct logs *logs, const char *job);

/* Remove all of a job's output. */
int logs_forget(struct logs *logs, const char *job, struct error *err);

/* For a job without output the page is empty. */
int logs_read(struct logs *logs, const char *job, const struct logs_query *query,
              struct arena *arena, struct logs_page *ret, struct error *err);

#endif
