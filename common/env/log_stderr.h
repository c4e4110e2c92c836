/* The log sink of programs: one line per record to a descriptor, in one write, so lines of several
 * threads or processes do not mix. Text with colours on a terminal, text without where asked, one
 * JSON object per line otherwise. Any thread. Lines beyond LOG_LINE_MAX_BYTES are cut.
 */
#ifndef ENV_LOG_STDERR_H
#define ENV_LOG_STDERR_H

#include <stdbool.h>

#include "common/base/log.h"
#include "common/env/env.h"

enum { LOG_LINE_MAX_BYTES = 8192 };

/* auto: text on a terminal, JSON elsewhere */
enum log_format { LOG_FORMAT_AUTO, LOG_FORMAT_TEXT, LOG_FORMAT_JSON };

struct log_stderr {
    int fd;
    bool json;
    bool colour;
    struct clock clock; /* for the time in each line */
};

void log_stderr_init(struct log_stderr *out, int fd, enum log_format format,
                     const struct clock *clock);
struct log_sink log_stderr_sink(struct log_stderr *out);

#endif
