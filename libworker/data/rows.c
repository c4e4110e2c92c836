#include "libworker/data/rows.h"

#include <stdlib.h>
#include <string.h>

#include <worker/error.h>
#include <worker/nn.h>

#include "common/base/str.h"
#include "libworker/data/digest.h"

/* Bytes of an element, and what it can be padded with; none for floats, which take any number. */
static const struct type_row {
    size_t bytes;
    bool bounded;
    double min, max;
} types[] = {
    [WK_F32] = {4, false, 0, 0},
    [WK_F64] = {8, false, 0, 0},
    [WK_F16] = {2, true, 0, 0},
    [WK_BF16] = {2, true, 0, 0},
    [WK_I32] = {4, true, -0x1p31, 0x1p31 - 1},
    [WK_I64] = {8, true, -0x1p53, 0x1p53},
    [WK_U8] = {1, true, 0, 255},
    [WK_BOOL] = {1, true, 0, 1},
};
enum { TYPES = sizeof(types) / sizeof(types[0]) };

static int check_name(const struct wk_field *from, int index, struct field *ret, struct error *err)
{
    if (!from->name || !*from->name)
        return error_set(err, WK_EINVAL, "field %d of %d has no name", index + 1, WK_FIELDS_MAX);
    if (str_copy(ret->name, sizeof(ret->name), from->name))
        return error_set(err, WK_EINVAL, "field %d, \"%.20s…\": a name has at most %d bytes",
                         index + 1, from->name, WK_FIELD_NAME_MAX);
    return 0;
}

static int check_shape(const struct wk_field *from, struct field *ret, struct error *err)
{
    int64_t most = WK_ROW_BYTES_MAX / (int64_t)ret->element_bytes, all = 1;
    if (from->dims < 0 || from->dims > WK_FIELD_DIMS_MAX)
        return error_set(err, WK_EINVAL, "field %s has %d dimensions: a sample has 0 to %d",
                         ret->name, from->dims, WK_FIELD_DIMS_MAX);
    if (from->varies && !from->dims)
        return error_set(err, WK_EINVAL, "field %s varies, but has no dimension that could",
                         ret->name);
    ret->dims = from->dims;
    ret->elements = 1;
    for (int i = 0; i < from->dims; i++) {
        if (from->shape[i] < 1 || from->shape[i] > most / all)
            return error_set(err, WK_EINVAL,
                             "field %s: size %lld of dimension %d must be at least 1, and a row at "
                             "most %d bytes",
                             ret->name, (long long)from->shape[i], i, WK_ROW_BYTES_MAX);
        all *= from->shape[i];
        ret->shape[i] = from->shape[i];
        ret->elements *= i ? from->shape[i] : 1;
    }
    return 0;
}

static int encode_fill(double fill, struct field *ret, struct error *err)
{
    const struct type_row *type = &types[ret->type];
    if (type->bounded && !(fill >= type->min && fill <= type->max &&
                           !((double)(int64_t)fill < fill || (double)(int64_t)fill > fill)))
        return error_set(err, WK_EINVAL, "field %s: %g cannot fill what is %s", ret->name, fill,
                         type->bytes == 2 ? "f16 or bf16 (0 can)" : "of whole numbers in its type");
    float f32 = ret->type == WK_F32 ? (float)fill : 0;
    int64_t whole = type->bounded ? (int64_t)fill : 0; /* little-endian, as everything here */
    if (ret->type == WK_F32)
        memcpy(ret->fill, &f32, sizeof(f32));
    else if (ret->type == WK_F64)
        memcpy(ret->fill, &fill, sizeof(fill));
    else
        memcpy(ret->fill, &whole, sizeof(whole));
    return 0;
}

static int check_field(const struct wk_field *from, int index, struct field *ret, struct error *err)
{
    int rc = check_name(from, index, ret, err);
    if (rc)
        return rc;
    if ((unsigned)from->type >= TYPES)
        return error_set(err, WK_EINVAL, "field %s: %d is no type", ret->name, (int)from->type);
    ret->type = from->type;
    ret->element_bytes = types[from->type].bytes;
    ret->varies = from->varies;
    rc = check_shape(from, ret, err);
    return rc ? rc : encode_fill(from->fill, ret, err);
}

/* Tokens or targets, one for each position. */
static bool is_text(const struct field *field)
{
    return (field->type == WK_I32 || field->type == WK_I64) && field->dims == 1 &&
           (strcmp(field->name, "tokens") == 0 || strcmp(field->name, "targets") == 0);
}

static bool is_targets(const struct field *field)
{
    return is_text(field) && field->varies && field->name[1] == 'a';
}

/* Which fields vary, and the length that they share. */
static int settle_length(struct rows *rows, struct error *err)
{
    const struct field *first = NULL;
    bool any = false;
    rows->tokens = rows->targets = -1;
    for (int i = 0; i < rows->given.n_fields; i++)
        any = any || rows->fields[i].varies;
    for (int i = 0; i < rows->given.n_fields; i++) {
        struct field *field = &rows->fields[i];
        field->varies = field->varies || (!any && is_text(field));
        if (!field->varies) {
            field->elements *= field->dims ? field->shape[0] : 1;
            continue;
        }
        if (first && first->shape[0] != field->shape[0])
            return error_set(err, WK_EINVAL,
                             "field %s is at most %lld long and field %s %lld: fields that vary "
                             "have one length",
                             first->name, (long long)first->shape[0], field->name,
                             (long long)field->shape[0]);
        first = first ? first : field;
        if (is_targets(field))
            memcpy(field->fill, &(int64_t){WK_IGNORED}, sizeof(int64_t));
        rows->by_length = rows->by_length || is_targets(field);
        if (is_text(field) && field->type == WK_I32)
            *(is_targets(field) ? &rows->targets : &rows->tokens) = i;
    }
    rows->length = first ? first->shape[0] : 0;
    if (rows->given.length_of && !first)
        return error_set(err, WK_EINVAL, "length_of is set, but no field varies");
    return 0;
}

static int check_together(const struct rows *rows, struct error *err)
{
    size_t bytes = 0;
    for (int i = 0; i < rows->given.n_fields; i++) {
        bytes += field_bytes(&rows->fields[i], rows->length);
        for (int k = 0; k < i; k++)
            if (strcmp(rows->fields[i].name, rows->fields[k].name) == 0)
                return error_set(err, WK_EINVAL, "two fields are named %s", rows->fields[i].name);
    }
    if (bytes > WK_ROW_BYTES_MAX)
        return error_set(err, WK_EINVAL, "a sample has %zu bytes: it may have %d", bytes,
                         WK_ROW_BYTES_MAX);
    if (!rows->given.read && rows->given.count > PTRDIFF_MAX / (int64_t)bytes)
        return error_set(err, WK_EINVAL, "%lld rows of %zu bytes are no arrays in memory",
                         (long long)rows->given.count, bytes);
    return 0;
}

static int check_options(const struct wk_row_options *o, struct error *err)
{
    if (!o)
        return error_set(err, WK_EINVAL, "the options of a source of rows are NULL");
    if (o->count < 1 || o->count > WK_ROWS_MAX)
        return error_set(err, WK_EINVAL, "a source of %lld rows: it has 1 to %lld",
                         (long long)o->count, (long long)WK_ROWS_MAX);
    if (!o->fields || o->n_fields < 1 || o->n_fields > WK_FIELDS_MAX)
        return error_set(err, WK_EINVAL, "a source of rows has 1 to %d fields, this one %d",
                         WK_FIELDS_MAX, o->fields ? o->n_fields : 0);
    if ((o->read != NULL) == (o->arrays != NULL))
        return error_set(err, WK_EINVAL,
                         "a source of rows has either `read` or `arrays`, and this one has %s",
                         o->read ? "both" : "neither");
    for (int i = 0; o->arrays && i < o->n_fields; i++)
        if (!o->arrays[i])
            return error_set(err, WK_EINVAL, "the array of field %d is NULL", i + 1);
    return 0;
}

static int fill_rows(const struct wk_row_options *options, struct rows *rows, struct error *err)
{
    int rc = 0;
    rows->given = *options;
    rows->given.fields = NULL;
    rows->given.arrays = NULL;
    for (int i = 0; i < options->n_fields && !rc; i++) {
        rows->arrays[i] = options->arrays ? options->arrays[i] : NULL;
        rc = check_field(&options->fields[i], i, &rows->fields[i], err);
    }
    if (!rc)
        rc = settle_length(rows, err);
    return rc ? rc : check_together(rows, err);
}

int rows_new(const struct wk_row_options *options, struct rows **ret, struct error *err)
{
    int rc = check_options(options, err);
    if (rc)
        return rc;
    struct rows *rows = calloc(1, sizeof(*rows));
    if (!rows)
        return error_set(err, WK_ENOMEM, "no memory for a source of rows");
    rc = fill_rows(options, rows, err);
    if (rc) {
        free(rows);
        return rc;
    }
    *ret = rows;
    return 0;
}

int64_t field_elements(const struct field *field, int64_t length)
{
    return field->varies ? field->elements * length : field->elements;
}

size_t field_bytes(const struct field *field, int64_t length)
{
    return (size_t)field_elements(field, length) * field->element_bytes;
}

int rows_length_of(const struct rows *rows, int64_t sample, int64_t *ret_length, struct error *err)
{
    *ret_length = rows->length ? rows->length : 1;
    if (!rows->given.length_of)
        return 0;
    int64_t length = rows->given.length_of(rows->given.arg, sample);
    if (length < 0 || length > rows->length)
        return error_set(err, WK_EINVAL, "sample %lld has length %lld: it must be 0 to %lld",
                         (long long)sample, (long long)length, (long long)rows->length);
    *ret_length = length;
    return 0;
}

static int call_read(const struct rows *rows, const struct row_at *at, void *const *ret_fields,
                     struct error *err)
{
    int code = rows->given.read(rows->given.arg, at->sample, at->epoch, at->seed, ret_fields);
    if (!code)
        return 0;
    return error_set(err, code < 0 ? code : WK_EINVAL,
                     "sample %lld of epoch %lld: the program's read returned %d",
                     (long long)at->sample, (long long)at->epoch, code);
}

static void copy_row(const struct rows *rows, int index, const struct row_at *at, void *ret)
{
    const struct field *field = &rows->fields[index];
    size_t stride = field_bytes(field, rows->length);
    const unsigned char *from = rows->arrays[index];
    memcpy(ret, from + (size_t)at->sample * stride, field_bytes(field, at->own));
}

static void pad_row(const struct field *field, const struct row_at *at, void *ret)
{
    unsigned char *to = ret;
    size_t end = field_bytes(field, at->length);
    for (size_t i = field_bytes(field, at->own); i < end; i += field->element_bytes)
        memcpy(to + i, field->fill, field->element_bytes);
}

int rows_read(const struct rows *rows, const struct row_at *at, void *const *ret_fields,
              struct error *err)
{
    int rc = rows->given.read ? call_read(rows, at, ret_fields, err) : 0;
    for (int i = 0; i < rows->given.n_fields && !rc; i++) {
        if (!rows->given.read)
            copy_row(rows, i, at, ret_fields[i]);
        pad_row(&rows->fields[i], at, ret_fields[i]);
    }
    return rc;
}

static uint64_t digest_lengths(const struct rows *rows, uint64_t hash)
{
    int64_t pieces = rows->given.count < DIGEST_PIECES ? rows->given.count : DIGEST_PIECES;
    for (int64_t i = 0; i < pieces; i++) {
        int64_t at = pieces > 1 ? (rows->given.count - 1) / (pieces - 1) * i : 0;
        int64_t length = rows->given.length_of(rows->given.arg, at);
        hash = digest_bytes(hash, &length, sizeof(length));
    }
    return hash;
}

uint64_t rows_digest(const struct rows *rows)
{
    uint64_t hash = DIGEST_OF_NOTHING;
    for (int i = 0; i < rows->given.n_fields; i++) {
        const struct field *field = &rows->fields[i];
        int64_t kind[] = {field->type, field->dims, field->varies};
        hash = digest_bytes(hash, field->name, sizeof(field->name));
        hash = digest_bytes(hash, kind, sizeof(kind));
        hash = digest_bytes(hash, field->shape, sizeof(field->shape));
        hash = digest_bytes(hash, field->fill, sizeof(field->fill));
        if (rows->arrays[i])
            hash = digest_pieces(hash, rows->arrays[i],
                                 (size_t)rows->given.count * field_bytes(field, rows->length));
    }
    return rows->given.length_of ? digest_lengths(rows, hash) : hash;
}
