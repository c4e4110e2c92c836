/* A worker's output as lines in a file: written by its shim, read by agents one after another.
 *
 *     <milliseconds since 1970> <o|e> <text>\n        o = standard output, e = standard error
 *
 * A line ends at '\n' or '\r' (progress bars), is at most OUTPUT_LINE_MAX_BYTES long (the rest is
 * cut, and it says so) and is valid UTF-8 (other bytes become U+FFFD). Beyond the rate, or while
 * OUTPUT_KEPT_MAX_BYTES wait on disk to be shipped, lines are dropped and counted in a line of
 * their own: a program that floods is neither slowed down nor does it fill the disk. Loop or shim
 * thread.
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
    OUTPUT_RECORD_MAX_BYTES = 3 * OUTPUT_LINE_MAX_BYTES + 128, /* U+FFFD takes three bytes */
};

/* Room for four ends, so that it is seldom moved. */
enum { OUTPUT_LAST_BYTES = 4 * AGENT_LAST_OUTPUT_MAX_BYTES };

enum output_stream { OUTPUT_STDOUT, OUTPUT_STDERR, OUTPUT_STREAMS };

struct output_partial { /* a line that has not ended yet */
    char text[OUTPUT_LINE_MAX_BYTES];
    size_t size;
    uint64_t cut_bytes;
    bool after_return; /* the last byte was '\r': a '\n' that follows belongs to it */
};

struct output_writer {
    int fd; /* of the file, owned */
    struct output_partial partial[OUTPUT_STREAMS];
    struct buf line;                    /* the one that ends now, as valid UTF-8 */
    struct buf records;                 /* made in this call */
    int64_t tokens_bytes, tokens_at_ms; /* of the rate limit */
    uint64_t kept_bytes;                /* on disk, not freed by the agent yet */
    uint64_t dropped_lines;
    uint64_t told_lines;          /* in the notice among `records`; 0 = there is none */
    size_t told_at;               /* where in them it begins */
    char last[OUTPUT_LAST_BYTES]; /* the end of all text and some more, valid UTF-8 */
    size_t last_size;
};

/* Open or create for appending. Its mode is 0600: it is a tenant's own. */
int output_writer_init(struct output_writer *writer, const char *path, int64_t wall_ms,
                       struct error *err);
void output_writer_fini(struct output_writer *writer); /* flush first */

/* Bytes the worker wrote. A failing disk loses lines, never stops the worker. */
void output_write(struct output_writer *writer, enum output_stream stream, const char *bytes,
                  size_t size, int64_t wall_ms);

/* The streams have ended: what is left without a line end is a line too. */
void output_flush(struct output_writer *writer, int64_t wall_ms);

/* The end of all text: whole lines where one fits. */
void output_last(const struct output_writer *writer, char ret[AGENT_LAST_OUTPUT_MAX_BYTES + 1]);

/* The record at the start of bytes[0..size): its size with the '\n', 0 if it is not whole yet.
 * `ret->text` points to a NUL-terminated copy in `text`. A record that is none reads as its bytes.
 */
size_t output_parse(const char *bytes, size_t size, char text[OUTPUT_RECORD_MAX_BYTES],
                    struct output_line *ret);

#endif
