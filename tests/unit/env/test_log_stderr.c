#include <criterion/criterion.h>
#include <string.h>
#include <unistd.h>

#include "common/base/str.h"
#include "common/env/log_stderr.h"

static int64_t wall(void *self)
{
    (void)self;
    return 1795166100123;
}

static const struct clock still = {.wall_ms = wall};

/* What one warning with a field of `size` characters writes. */
static void written(enum log_format format, size_t size, char *ret, size_t ret_size)
{
    int fds[2];
    static char value[3 * LOG_LINE_MAX_BYTES];
    struct log_stderr out;
    memset(value, 'v', size);
    value[size] = '\0';
    cr_assert_eq(pipe(fds), 0);
    log_stderr_init(&out, fds[1], format, &still);
    struct log log = {.sink = log_stderr_sink(&out)};
    log_warn(&log, "node lost", log_str("node", value));
    close(fds[1]);
    ssize_t n = read(fds[0], ret, ret_size - 1);
    ret[n > 0 ? n : 0] = '\0';
    close(fds[0]);
}

Test(log_stderr, a_pipe_gets_one_json_object_per_line)
{
    char line[1024];
    written(LOG_FORMAT_AUTO, 2, line, sizeof(line));
    cr_assert_str_eq(line, "{\"time\":\"2026-11-20T09:15:00.123Z\",\"level\":\"warn\","
                           "\"message\":\"node lost\",\"node\":\"vv\"}\n");
}

Test(log_stderr, text_where_asked_without_colours)
{
    char line[1024];
    written(LOG_FORMAT_TEXT, 2, line, sizeof(line));
    cr_assert_str_eq(line, "2026-11-20T09:15:00.123Z warn  node lost node=vv\n");
}

Test(log_stderr, a_line_that_is_too_long_is_replaced_and_stays_json)
{
    char line[2 * LOG_LINE_MAX_BYTES];
    written(LOG_FORMAT_JSON, LOG_LINE_MAX_BYTES, line, sizeof(line));
    cr_assert_str_eq(line, "{\"time\":\"2026-11-20T09:15:00.123Z\",\"level\":\"warn\","
                           "\"message\":\"a log line was too long\"}\n");
    written(LOG_FORMAT_JSON, LOG_LINE_MAX_BYTES - 200, line, sizeof(line));
    cr_assert(str_ends(line, "v\"}\n"));
}

Test(log_stderr, a_closed_descriptor_does_not_stop_the_program)
{
    struct log_stderr out;
    log_stderr_init(&out, -1, LOG_FORMAT_AUTO, &still);
    struct log log = {.sink = log_stderr_sink(&out)};
    log_error(&log, "nobody reads this");
}
