/* What the samples of a source of rows have, checked and copied from its options (worker/rows.h).
 * Belongs to its source; immutable. Any number of threads may use it, if the program's functions
 * allow that. */
#ifndef DATA_ROWS_H
#define DATA_ROWS_H

#include <worker/rows.h>

#include "common/base/error.h"

struct field {
    char name[WK_FIELD_NAME_MAX + 1];
    enum wk_dtype type;
    int dims;
    int64_t shape[WK_FIELD_DIMS_MAX];
    bool varies;
    int64_t elements; /* of a row, or of one position of its length where that varies */
    size_t element_bytes;
    unsigned char fill[8]; /* one element */
};

struct rows {
    struct wk_row_options given; /* its fields and arrays are those below */
    struct field fields[WK_FIELDS_MAX];
    const void *arrays[WK_FIELDS_MAX];
    int64_t length;      /* of the longest sample; 0: no field varies */
    int tokens, targets; /* which fields are the batch's, or -1 */
    bool by_length;      /* there are targets: positions count, not samples */
};

int rows_new(const struct wk_row_options *options, struct rows **ret, struct error *err);

/* Elements and bytes of a row in a batch of this length. */
int64_t field_elements(const struct field *field, int64_t length);
size_t field_bytes(const struct field *field, int64_t length);

/* The sample's length, at most rows->length; 1 if no field varies. WK_EINVAL: the program's
 * function returned one that is out of bounds. */
int rows_length_of(const struct rows *rows, int64_t sample, int64_t *ret_length, struct error *err);

/* Which rows, for what: a sample of `own` positions in a batch of `length`. */
struct row_at {
    int64_t sample, epoch;
    uint64_t seed;
    int64_t own, length;
};

/* Write the sample's row of each field to ret_fields[i], padded. The error of the program. */
int rows_read(const struct rows *rows, const struct row_at *at, void *const *ret_fields,
              struct error *err);

/* Of names, types, shapes, some of the arrays' bytes and some of the samples' lengths. */
uint64_t rows_digest(const struct rows *rows);

#endif
