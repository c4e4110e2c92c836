#include "common/env/log_stderr.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "common/base/parse.h"

static const char *colour(enum log_level level)
{
    switch (level) {
    case LOG_LEVEL_DEBUG:
        return "\033[2m";
    case LOG_LEVEL_INFO:
        return "";
    case LOG_LEVEL_WARN:
        return "\033[33m";
    case LOG_LEVEL_ERROR:
        return "\033[31m";
    }
    return "";
}

/* One write per line: the kernel keeps writes to the same pipe or terminal apart. A log that cannot
 * be written must not stop the program. */
static void write_line(int fd, const char *line, size_t size)
{
    while (size) {
        ssize_t n = write(fd, line, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return;
        line += n;
        size -= (size_t)n;
    }
}

static void format_line(const struct log_stderr *out, const struct log_record *record,
                        int64_t wall_ms, struct buf *line)
{
    char time[FORMAT_MAX];
    if (out->json) {
        log_format_json(record, wall_ms, line);
        return;
    }
    const char *start = out->colour ? colour(record->level) : "";
    buf_printf(line, "%s%s %-5s ", start, format_time(wall_ms, time),
               log_level_name(record->level));
    log_format_text(record, line);
    buf_str(line, *start ? "\033[0m" : "");
}

static void write_record(void *self, const struct log_record *record)
{
    struct log_stderr *out = self;
    struct buf line = {.max_bytes = LOG_LINE_MAX_BYTES - 1};
    int64_t wall_ms = out->clock.wall_ms(out->clock.self);
    format_line(out, record, wall_ms, &line);
    if (buf_failed(&line)) { /* too long: the sentence alone, so that JSON stays JSON */
        struct log_record bare = {record->level, "a log line was too long", NULL, NULL};
        buf_clear(&line);
        format_line(out, &bare, wall_ms, &line);
    }
    line.max_bytes = LOG_LINE_MAX_BYTES;
    buf_char(&line, '\n');
    write_line(out->fd, buf_cstr(&line), line.size);
    buf_fini(&line);
}

void log_stderr_init(struct log_stderr *out, int fd, enum log_format format,
                     const struct clock *clock)
{
    bool terminal = isatty(fd);
    *out = (struct log_stderr){
        .fd = fd,
        .json = format == LOG_FORMAT_JSON || (format == LOG_FORMAT_AUTO && !terminal),
        .colour = terminal && format != LOG_FORMAT_JSON,
        .clock = *clock,
    };
}

struct log_sink log_stderr_sink(struct log_stderr *out)
{
    return (struct log_sink){.self = out, .write = write_record};
}
