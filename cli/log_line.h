/* Log lines as people and programs read them: what a worker wrote to its stdout goes to stdout,
 * what it wrote to its stderr to stderr. As JSON or YAML all of them go to stdout, one document
 * each.
 */
#ifndef CLI_LOG_LINE_H
#define CLI_LOG_LINE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/client.pb-c.h"

struct log_printer {
    const char *format;  /* of -o: "table" is plain text */
    bool show_rank;      /* plain: a line begins with its rank */
    bool marks;          /* plain: a line on stderr tells where a new generation begins */
    uint64_t generation; /* newest one that was printed; 0 = none yet */
};

void log_line_print(struct log_printer *printer, const Muster__LogLine *line);

#endif
