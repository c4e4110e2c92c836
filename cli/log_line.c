#include "cli/log_line.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/client.h"
#include "cli/table.h"

/* Lines of several workers arrive in any order: an older generation's may be among newer ones. */
static void print_mark(struct log_printer *printer, uint64_t generation)
{
    if (generation <= printer->generation)
        return;
    if (printer->marks && printer->generation) {
        fflush(stdout);
        fprintf(stderr, "%s── generation %" PRIu64 " ──%s\n", colour_dim(stderr), generation,
                colour_off(stderr));
    }
    printer->generation = generation;
}

void log_line_print(struct log_printer *printer, const Muster__LogLine *line)
{
    if (strcmp(printer->format, "table") != 0) {
        client_print_item(printer->format, line);
        return;
    }
    print_mark(printer, line->generation);
    FILE *out = line->is_stderr ? stderr : stdout;
    if (line->is_stderr)
        fflush(stdout);
    if (printer->show_rank)
        fprintf(out, "%s[%u]%s ", colour_dim(out), line->rank, colour_off(out));
    fprintf(out, "%s\n", line->text);
}
