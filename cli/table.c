#include "cli/table.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/base/str.h"

void table_init(struct table *table, const char *const *titles)
{
    *table = (struct table){.titles = titles};
    while (titles[table->columns] && table->columns < TABLE_COLUMNS_MAX)
        table->columns++;
}

void table_fini(struct table *table)
{
    buf_fini(&table->cells);
}

void table_cell(struct table *table, const char *fmt, ...)
{
    size_t start = table->cells.size;
    va_list ap;
    va_start(ap, fmt);
    buf_vprintf(&table->cells, fmt, ap);
    va_end(ap);
    if (table->cells.size == start)
        buf_char(&table->cells, '-');
    buf_char(&table->cells, '\0');
    table->count++;
}

static bool colours(FILE *out)
{
    const char *none = getenv("NO_COLOR");
    int fd = fileno(out);
    return isatty(fd < 0 ? STDOUT_FILENO : fd) && !(none && *none);
}

const char *colour_of_state(FILE *out, const char *state)
{
    static const struct {
        const char *state, *colour;
    } map[] = {
        {"running", "\033[32m"},     {"succeeded", "\033[32m"}, {"ready", "\033[32m"},
        {"joined", "\033[32m"},      {"failed", "\033[31m"},    {"lost", "\033[31m"},
        {"unreachable", "\033[31m"}, {"stalled", "\033[31m"},   {"restarting", "\033[33m"},
        {"reforming", "\033[33m"},   {"queued", "\033[36m"},    {"starting", "\033[36m"},
        {"stopping", "\033[33m"},    {"draining", "\033[33m"},  {"drained", "\033[33m"},
        {"cordoned", "\033[33m"},
    };
    if (!colours(out))
        return "";
    for (size_t i = 0; i < sizeof(map) / sizeof(map[0]); i++)
        if (strcmp(map[i].state, state) == 0)
            return map[i].colour;
    return "";
}

const char *colour_bold(FILE *out)
{
    return colours(out) ? "\033[1m" : "";
}

const char *colour_dim(FILE *out)
{
    return colours(out) ? "\033[2m" : "";
}

const char *colour_off(FILE *out)
{
    return colours(out) ? "\033[0m" : "";
}

int terminal_columns(FILE *out)
{
    struct winsize size;
    if (ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    return 80;
}

static void print_cell(FILE *out, const char *text, int width, bool right, bool last)
{
    int columns = (int)utf8_columns(text);
    int pad = width > columns ? width - columns : 0;
    if (right)
        fprintf(out, "%*s", pad, "");
    fprintf(out, "%s%s%s", colour_of_state(out, text), text,
            *colour_of_state(out, text) ? colour_off(out) : "");
    if (!last)
        fprintf(out, "%*s", (right ? 0 : pad) + 2, "");
}

void table_print(const struct table *table, FILE *out, const char *empty)
{
    if (table->count == 0) {
        fprintf(out, "%s\n", empty);
        return;
    }
    int width[TABLE_COLUMNS_MAX];
    for (int c = 0; c < table->columns; c++)
        width[c] = (int)strlen(table->titles[c]) - (table->titles[c][0] == '>');
    const char *cell = table->cells.data;
    for (int i = 0; i < table->count; i++, cell += strlen(cell) + 1) {
        int columns = (int)utf8_columns(cell);
        if (columns > width[i % table->columns])
            width[i % table->columns] = columns;
    }
    fputs(colour_dim(out), out);
    for (int c = 0; c < table->columns; c++) {
        bool right = table->titles[c][0] == '>';
        print_cell(out, table->titles[c] + right, width[c], right, c == table->columns - 1);
    }
    fprintf(out, "%s\n", colour_off(out));
    cell = table->cells.data;
    for (int i = 0; i < table->count; i++, cell += strlen(cell) + 1) {
        int c = i % table->columns;
        bool last = c == table->columns - 1;
        print_cell(out, cell, width[c], table->titles[c][0] == '>', last);
        if (last)
            fputc('\n', out);
    }
}
