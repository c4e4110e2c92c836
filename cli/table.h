/* A table for people: columns as wide as their longest cell, no lines, numbers to the right. Cells
 * are copied. One thread. On a terminal the state words are coloured; elsewhere nothing is.
 */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include <stdbool.h>
#include <stdio.h>

#include "common/base/buf.h"

enum { TABLE_COLUMNS_MAX = 72 }; /* a matrix of 64 GPUs fits */

struct table {
    const char *const *titles; /* NULL-terminated; a title that starts with '>' aligns right */
    int columns;
    struct buf cells; /* NUL-terminated, row by row */
    int count;
};

void table_init(struct table *table, const char *const *titles);
void table_fini(struct table *table);

/* The next cell, left to right, row after row; an empty text shows "-". */
void table_cell(struct table *table, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Titles and rows; nothing but `empty` (a sentence) when there is no row. */
void table_print(const struct table *table, FILE *out, const char *empty);

/* Terminal colours, or "" where `out` is no terminal or NO_COLOR is set. A stream in memory has
 * those of standard output. */
const char *colour_of_state(FILE *out, const char *state);
const char *colour_bold(FILE *out);
const char *colour_dim(FILE *out);
const char *colour_off(FILE *out);
int terminal_columns(FILE *out); /* 80 if unknown */

#endif
