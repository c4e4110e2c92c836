/* A worker's output as lines in a file: written by its shim, read by agents one after another.
 *
 *       <milliseconds since 1970> <o|e> <text>\n        o = standard output, e = standard error
 *
 * A line ends at '\n' or '\r' (progress bars). It has at most OUTPUT_LINE_MAX_BYTES (a longer one
 * is cut, with a note) and is valid UTF-8 (other bytes become U+FFFD).
 *
 * Lines are dropped beyond the rate, and while OUTPUT_KEPT_MAX_BYTES on disk wait to be shipped. An
 * extra line has the number of dropped ones. A program that floods is therefore not slowed down,
 * and does not fill the disk. Loop or shim thread.
 */
#ifndef SUPERVISOR_OUTPUT_H
#define SUPERVISOR_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/supervisor/launcher.h"
#include "common/base/buf.h"
#include "common/base/error.h"

enum {
    OUTPUT_RATE_BYTES_PER_S = 2 << 20,
    OUTPUT_BURST_BYTES = 16 << 20,
    OUTPUT_KEPT_MAX_BYTES = 64 << 20,
    OUTPUT_RECORD_MAX_BYTES = 3 * OUTPUT_LINE_MAX_BYTES + 128, /* U+FFFD has three bytes */
};

/* Space for four times the last output that is kept, so that its bytes are seldom moved. */
enum { OUTPUT_LAST_BYTES = 4 * AGENT_LAST_OUTPUT_MAX_BYTES };

enum output_stream { OUTPUT_STDOUT, OUTPUT_STDERR, OUTPUT_STREAMS };

struct output_partial { /* a line that has not ended yet */
    char text[OUTPUT_LINE_MAX_BYTES];
    size_t size;
    uint64_t cut_bytes;
    bool after_return; /* the last byte was '\r': a following '\n' belongs to it */
};

struct output_writer {
    int fd; /* of the file, owned */
    struct output_partial partial[OUTPUT_STREAMS];
    struct buf line;                    /* the present line, as valid UTF-8 */
    struct buf records;                 /* made in this call */
    int64_t tokens_bytes, tokens_at_ms; /* of the rate limit */
    uint64_t kept_bytes;                /* on disk, not freed by the agent yet */
    uint64_t dropped_lines;
    uint64_t told_lines;          /* in the notice among `records`; 0 = no notice */
    size_t told_at;               /* its offset in them */
    char last[OUTPUT_LAST_BYTES]; /* the end of all text and some more, valid UTF-8 */
    size_t last_size;
};

/* Open or create for appending, with mode 0600, because it is a tenant's own. */
int output_writer_init(struct output_writer *writer, const char *path, int64_t wall_ms,
                       struct error *err);
void output_writer_fini(struct output_writer *writer); /* flush first */

/* Bytes from the worker. A failing disk loses lines, but never stops the worker. */
void output_write(struct output_writer *writer, enum output_stream stream, const char *bytes,
                  size_t size, int64_t wall_ms);

/* The streams have ended: a rest without line end becomes a line. */
void output_flush(struct output_writer *writer, int64_t wall_ms);

/* The end of all text: whole lines if one fits. */
void output_last(const struct output_writer *writer, char ret[AGENT_LAST_OUTPUT_MAX_BYTES + 1]);

/* The record at the start of bytes[0..size): returns its size with the '\n', 0 if it is incomplete.
 * `ret->text` points to a NUL-terminated copy in `text`. An invalid record is read as plain bytes.
 */
size_t output_parse(const char *bytes, size_t size, char text[OUTPUT_RECORD_MAX_BYTES],
                    struct output_line *ret);

#endif
