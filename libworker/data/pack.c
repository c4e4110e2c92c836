#include "libworker/data/pack.h"

#include <stdlib.h>
#include <string.h>

#include <worker/error.h>
#include <worker/nn.h>

#include "libworker/data/digest.h"
#include "libworker/data/pack_place.h"

static int find_field(const struct rows *rows, const char *name)
{
    for (int i = 0; i < rows->given.n_fields; i++)
        if (!strcmp(rows->fields[i].name, name))
            return i;
    return -1;
}

static int check_documents(const struct pack *pack, struct error *err)
{
    const struct rows *rows = pack->documents;
    if (pack->packing.length < 1 || pack->packing.length > INT32_MAX)
        return error_set(err, WK_EINVAL, "packed samples of length %lld: it is 1 to %d",
                         (long long)pack->packing.length, INT32_MAX);
    for (int i = 0; i < rows->given.n_fields; i++)
        if (!rows->fields[i].varies)
            return error_set(err, WK_EINVAL,
                             "field %s does not vary: documents are packed position by position",
                             rows->fields[i].name);
    if (find_field(rows, "starts") >= 0)
        return error_set(err, WK_EINVAL, "packing makes the field starts itself");
    return 0;
}

static int add_field(struct pack *pack, const char *name)
{
    pack->fields[pack->n_fields] = (struct wk_field){
        .name = name, .type = WK_I32, .dims = 1, .shape = {pack->packing.length}, .varies = true};
    return pack->n_fields++;
}

/* The documents' fields in samples of the packed length, then those that packing makes. */
static int make_fields(struct pack *pack, struct error *err)
{
    const struct rows *rows = pack->documents;
    int tokens = find_field(rows, "tokens");
    bool makes_targets = tokens >= 0 && tokens == rows->tokens && find_field(rows, "targets") < 0;
    if (rows->given.n_fields + 1 + makes_targets > WK_FIELDS_MAX)
        return error_set(err, WK_EINVAL, "a packed sample has at most %d fields", WK_FIELDS_MAX);
    for (int i = 0; i < rows->given.n_fields; i++) {
        const struct field *from = &rows->fields[i];
        struct wk_field *to = &pack->fields[pack->n_fields++];
        *to = (struct wk_field){
            .name = from->name, .type = from->type, .dims = from->dims, .varies = true};
        memcpy(to->shape, from->shape, sizeof(to->shape));
        to->shape[0] = pack->packing.length;
    }
    pack->targets = makes_targets ? add_field(pack, "targets") : -1;
    pack->starts = add_field(pack, "starts");
    return 0;
}

static unsigned char *row_of_field(const struct pack *pack, int field, void *const *fields,
                                   int64_t position)
{
    const struct field *of = &pack->documents->fields[field];
    return (unsigned char *)fields[field] + (size_t)(of->elements * position) * of->element_bytes;
}

/* The next tokens of the document; nothing follows its last. `tokens` are those of the piece, and
 * one more where it is not the document's end. */
static void write_targets(int32_t *targets, const int32_t *tokens, int64_t count, bool continues)
{
    for (int64_t i = 0; i < count; i++)
        targets[i] = i + 1 < count || continues ? tokens[i + 1] : WK_IGNORED;
}

/* Rows of a whole document in memory of its own. */
struct document {
    void *memory;
    void *rows[WK_FIELDS_MAX];
};

static int read_document(const struct pack *pack, const struct row_at *at, struct document *ret,
                         struct error *err)
{
    enum { ALIGN = 64 };
    const struct rows *rows = pack->documents;
    size_t bytes = 0;
    for (int i = 0; i < rows->given.n_fields; i++)
        bytes += (field_bytes(&rows->fields[i], at->own) + ALIGN - 1) / ALIGN * ALIGN;
    unsigned char *to = aligned_alloc(ALIGN, bytes + ALIGN);
    *ret = (struct document){.memory = to};
    if (!to)
        return error_set(err, WK_ENOMEM, "no memory for a document of %lld positions",
                         (long long)at->own);
    for (int i = 0; i < rows->given.n_fields; i++) {
        ret->rows[i] = to;
        to += (field_bytes(&rows->fields[i], at->own) + ALIGN - 1) / ALIGN * ALIGN;
    }
    return rows_read(rows, at, ret->rows, err);
}

/* Write a piece at `position` of a sample. */
static int read_piece(const struct pack *pack, const struct piece *piece, struct row_at *at,
                      void *const *fields, struct error *err)
{
    const struct rows *rows = pack->documents;
    int64_t position = at->length;
    struct document document = {.memory = NULL};
    struct row_at of = {.sample = piece->document, .epoch = at->epoch, .seed = at->seed};
    int rc = rows_length_of(rows, piece->document, &of.own, err);
    of.length = of.own;
    if (!rc)
        rc = read_document(pack, &of, &document, err);
    for (int i = 0; i < rows->given.n_fields && !rc; i++) {
        const struct field *field = &rows->fields[i];
        size_t each = (size_t)field->elements * field->element_bytes;
        memcpy(row_of_field(pack, i, fields, position),
               (unsigned char *)document.rows[i] + (size_t)piece->first * each,
               (size_t)piece->count * each);
    }
    if (!rc && pack->targets >= 0)
        write_targets((int32_t *)fields[pack->targets] + position,
                      (int32_t *)document.rows[rows->tokens] + piece->first, piece->count,
                      piece->first + piece->count < of.own);
    for (int64_t i = 0; i < piece->count && !rc; i++)
        ((int32_t *)fields[pack->starts])[position + i] = (int32_t)position;
    free(document.memory);
    return rc;
}

/* What no document fills is a document of its own, of which no target counts. */
static void fill_rest(const struct pack *pack, void *const *fields, int64_t position)
{
    const struct rows *rows = pack->documents;
    int64_t length = pack->packing.length;
    for (int i = 0; i < rows->given.n_fields; i++) {
        const struct field *field = &rows->fields[i];
        unsigned char *at = row_of_field(pack, i, fields, position);
        unsigned char *end = row_of_field(pack, i, fields, length);
        for (; at < end; at += field->element_bytes)
            memcpy(at, field->fill, field->element_bytes);
    }
    for (int64_t i = position; i < length; i++) {
        if (pack->targets >= 0)
            ((int32_t *)fields[pack->targets])[i] = WK_IGNORED;
        ((int32_t *)fields[pack->starts])[i] = (int32_t)position;
    }
}

static int read_sample(void *arg, int64_t sample, int64_t epoch, uint64_t seed, void *const *fields)
{
    const struct pack *pack = arg;
    struct row_at at = {.epoch = epoch, .seed = seed};
    int rc = 0;
    for (int64_t i = sample ? pack->ends[sample - 1] : 0; i < pack->ends[sample] && !rc; i++) {
        rc = read_piece(pack, &pack->pieces[i], &at, fields, NULL);
        at.length += pack->pieces[i].count;
    }
    if (!rc)
        fill_rest(pack, fields, at.length);
    return rc;
}

int pack_new(const struct wk_row_options *options, struct pack **ret,
             struct wk_row_options *ret_options, struct error *err)
{
    struct wk_row_options documents = *options;
    struct pack *pack = calloc(1, sizeof(*pack));
    if (!pack)
        return error_set(err, WK_ENOMEM, "no memory to pack documents");
    pack->packing = *options->packing;
    documents.packing = NULL;
    int rc = rows_new(&documents, &pack->documents, err);
    if (!rc)
        rc = check_documents(pack, err);
    if (!rc)
        rc = make_fields(pack, err);
    if (!rc)
        rc = pack_place(pack, err);
    if (rc) {
        pack_free(pack);
        return rc;
    }
    *ret_options = (struct wk_row_options){.count = pack->samples,
                                           .fields = pack->fields,
                                           .n_fields = pack->n_fields,
                                           .read = read_sample,
                                           .arg = pack};
    *ret = pack;
    return 0;
}

void pack_free(struct pack *pack)
{
    if (!pack)
        return;
    free(pack->documents);
    free(pack->ends);
    free(pack->pieces);
    free(pack);
}

uint64_t pack_digest(const struct pack *pack)
{
    uint64_t hash = rows_digest(pack->documents);
    int64_t how[] = {pack->packing.length, pack->packing.cut, (int64_t)pack->packing.seed};
    hash = digest_bytes(hash, how, sizeof(how));
    return digest_pieces(hash, pack->pieces, (size_t)pack->n_pieces * sizeof(*pack->pieces));
}
