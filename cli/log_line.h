/* Log lines for people and programs: a worker's stdout is printed on stdout, its stderr on stderr.
 * As JSON or YAML all lines are on stdout, one document each. */
#ifndef CLI_LOG_LINE_H
#define CLI_LOG_LINE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/client.pb-c.h"

struct log_printer {
    const char *format;  /* of -o: "table" is plain text */
    bool show_rank;      /* plain: a line begins with its rank */
    bool marks;          /* plain: a line on stderr marks the begin of a new generation */
    uint64_t generation; /* newest one that was printed; 0 = none yet */
};

void log_line_print(struct log_printer *printer, const Muster__LogLine *line);

#endif
