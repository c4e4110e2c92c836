#include "agent/supervisor/output.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/str.h"

enum { BLOCK_BYTES = 512, RECORDS_WRITE_BYTES = 1 << 20, RECORDS_MAX_BYTES = 4 << 20 };

static const char stream_letters[OUTPUT_STREAMS] = {'o', 'e'};

int output_writer_init(struct output_writer *writer, const char *path, int64_t wall_ms,
                       struct error *err)
{
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_errno(err, errno, "%s", path);
    memset(writer, 0, sizeof(*writer));
    writer->fd = fd;
    writer->tokens_bytes = OUTPUT_BURST_BYTES;
    writer->tokens_at_ms = wall_ms;
    buf_init(&writer->records, RECORDS_MAX_BYTES);
    return 0;
}

void output_writer_fini(struct output_writer *writer)
{
    if (writer->fd > 0)
        close(writer->fd);
    writer->fd = -1;
    buf_fini(&writer->line);
    buf_fini(&writer->records);
}

/* The largest end of text[0..size) that has `max` bytes at most and starts with a character. */
static const char *end_of(const char *text, size_t size, size_t max)
{
    const char *start = size > max ? text + (size - max) : text;
    while (start > text && start < text + size && ((unsigned char)*start & 0xc0) == 0x80)
        start++;
    return start;
}

static void remember_last(struct output_writer *writer, const char *text, size_t size)
{
    const char *start = end_of(text, size, AGENT_LAST_OUTPUT_MAX_BYTES - 1);
    size -= (size_t)(start - text);
    if (writer->last_size + size + 1 > sizeof(writer->last)) {
        const char *keep = end_of(writer->last, writer->last_size, AGENT_LAST_OUTPUT_MAX_BYTES);
        size_t kept = writer->last_size - (size_t)(keep - writer->last);
        memmove(writer->last, keep, kept);
        writer->last_size = kept;
    }
    memcpy(writer->last + writer->last_size, start, size);
    writer->last_size += size;
    writer->last[writer->last_size++] = '\n';
}

void output_last(const struct output_writer *writer, char ret[AGENT_LAST_OUTPUT_MAX_BYTES + 1])
{
    const char *end = writer->last + writer->last_size;
    const char *start = end_of(writer->last, writer->last_size, AGENT_LAST_OUTPUT_MAX_BYTES);
    if (start > writer->last && start[-1] != '\n') {
        const char *line_end = memchr(start, '\n', (size_t)(end - start));
        if (line_end && line_end + 1 < end)
            start = line_end + 1;
    }
    memcpy(ret, start, (size_t)(end - start));
    ret[end - start] = '\0';
}

static void append_utf8(struct buf *out, const char *text, size_t size)
{
    size_t at = 0, start = 0;
    while (at < size) {
        size_t length = utf8_decode(text + at, size - at, NULL);
        if (length > 0 && text[at] != '\0') {
            at += length;
            continue;
        }
        buf_append(out, text + start, at - start);
        buf_str(out, "\xef\xbf\xbd");
        start = ++at;
    }
    buf_append(out, text + start, at - start);
}

static bool allowed(struct output_writer *writer, size_t size, int64_t wall_ms)
{
    int64_t elapsed_ms = wall_ms - writer->tokens_at_ms;
    if (elapsed_ms > 0) {
        int64_t refill =
            elapsed_ms > 60000 ? OUTPUT_BURST_BYTES : elapsed_ms * OUTPUT_RATE_BYTES_PER_S / 1000;
        writer->tokens_bytes += refill;
        if (writer->tokens_bytes > OUTPUT_BURST_BYTES)
            writer->tokens_bytes = OUTPUT_BURST_BYTES;
    }
    writer->tokens_at_ms = wall_ms; /* the wall clock may jump back: then time starts again */
    if (writer->kept_bytes + writer->records.size + size > OUTPUT_KEPT_MAX_BYTES ||
        writer->tokens_bytes < (int64_t)size)
        return false;
    writer->tokens_bytes -= (int64_t)size;
    return true;
}

/* One at most among the records that are not written yet. */
static void append_notice(struct output_writer *writer, int64_t wall_ms)
{
    if (!writer->dropped_lines || writer->told_lines)
        return;
    writer->told_lines = writer->dropped_lines;
    writer->told_at = writer->records.size;
    buf_printf(&writer->records,
               "%" PRId64 " e [muster: %" PRIu64 " lines dropped: more output than is kept]\n",
               wall_ms, writer->dropped_lines);
    writer->dropped_lines = 0;
}

static void end_line(struct output_writer *writer, enum output_stream stream, int64_t wall_ms)
{
    struct output_partial *partial = &writer->partial[stream];
    struct buf *line = &writer->line;
    buf_clear(line);
    append_utf8(line, partial->text, partial->size);
    remember_last(writer, buf_cstr(line), line->size);
    if (allowed(writer, line->size + 32, wall_ms)) {
        append_notice(writer, wall_ms);
        buf_printf(&writer->records, "%" PRId64 " %c ", wall_ms, stream_letters[stream]);
        buf_append(&writer->records, buf_cstr(line), line->size);
        if (partial->cut_bytes)
            buf_printf(&writer->records, " [muster: %" PRIu64 " bytes cut]", partial->cut_bytes);
        buf_char(&writer->records, '\n');
    } else {
        writer->dropped_lines++;
    }
    partial->size = 0;
    partial->cut_bytes = 0;
}

static void add_text(struct output_partial *partial, const char *text, size_t size)
{
    size_t room = sizeof(partial->text) - partial->size;
    size_t fits = size < room ? size : room;
    memcpy(partial->text + partial->size, text, fits);
    partial->size += fits;
    partial->cut_bytes += size - fits;
    partial->after_return = false;
}

static void handle_line_end(struct output_writer *writer, enum output_stream stream, char byte,
                            int64_t wall_ms)
{
    struct output_partial *partial = &writer->partial[stream];
    bool after_return = partial->after_return;
    partial->after_return = byte == '\r' && partial->size > 0;
    if (byte == '\r' ? partial->size > 0 : !after_return)
        end_line(writer, stream, wall_ms);
}

/* After a short write (a full disk) only whole records stay in the file. */
static void cut_torn_record(struct output_writer *writer, size_t written)
{
    size_t whole = written;
    struct stat status;
    while (whole > 0 && writer->records.data[whole - 1] != '\n')
        whole--;
    if (fstat(writer->fd, &status) == 0 && whole < written &&
        ftruncate(writer->fd, status.st_size - (off_t)(written - whole)) < 0)
        writer->dropped_lines++; /* the torn line will be read as one with the next */
    for (size_t i = whole; i < writer->records.size; i++) {
        if (writer->records.data[i] == '\n')
            writer->dropped_lines++;
    }
    if (writer->told_lines && writer->told_at >= whole) /* with the notice of those before */
        writer->dropped_lines += writer->told_lines - 1;
}

static void write_records(struct output_writer *writer)
{
    size_t at = 0;
    struct stat status;
    while (at < writer->records.size) {
        ssize_t written = write(writer->fd, writer->records.data + at, writer->records.size - at);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            break;
        at += (size_t)written;
    }
    if (at < writer->records.size)
        cut_torn_record(writer, at);
    buf_clear(&writer->records);
    writer->told_lines = 0;
    if (fstat(writer->fd, &status) == 0)
        writer->kept_bytes = (uint64_t)status.st_blocks * BLOCK_BYTES;
}

void output_write(struct output_writer *writer, enum output_stream stream, const char *bytes,
                  size_t size, int64_t wall_ms)
{
    size_t start = 0;
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] != '\n' && bytes[i] != '\r')
            continue;
        if (i > start)
            add_text(&writer->partial[stream], bytes + start, i - start);
        handle_line_end(writer, stream, bytes[i], wall_ms);
        start = i + 1;
        if (writer->records.size > RECORDS_WRITE_BYTES)
            write_records(writer);
    }
    if (size > start)
        add_text(&writer->partial[stream], bytes + start, size - start);
    if (writer->records.size)
        write_records(writer);
}

void output_flush(struct output_writer *writer, int64_t wall_ms)
{
    for (int stream = 0; stream < OUTPUT_STREAMS; stream++)
        if (writer->partial[stream].size > 0)
            end_line(writer, (enum output_stream)stream, wall_ms);
    if (writer->records.size)
        write_records(writer);
    append_notice(writer, wall_ms);
    if (writer->records.size)
        write_records(writer);
}

size_t output_parse(const char *bytes, size_t size, char text[OUTPUT_RECORD_MAX_BYTES],
                    struct output_line *ret)
{
    const char *end = memchr(bytes, '\n', size);
    if (!end)
        return 0;
    size_t length = (size_t)(end - bytes);
    size_t whole = length + 1;
    char *after = NULL;
    *ret = (struct output_line){.text = text};
    long long wall_ms = strtoll(bytes, &after, 10);
    if (after > bytes && after + 3 <= end && after[0] == ' ' && after[2] == ' ') {
        ret->wall_ms = wall_ms;
        ret->is_stderr = after[1] == stream_letters[OUTPUT_STDERR];
        length -= (size_t)(after + 3 - bytes);
        bytes = after + 3;
    }
    if (length > OUTPUT_RECORD_MAX_BYTES - 1)
        length = OUTPUT_RECORD_MAX_BYTES - 1;
    memcpy(text, bytes, length);
    text[length] = '\0';
    return whole;
}
