/* Documents in packed samples: every position once at any world and after any stop, no target of
 * another document, and what is refused. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include <worker/nn.h>

#include "libworker/data/loader.h"

enum { DOCUMENTS = 57, LENGTH = 16, LONGEST = 40, WORLDS = 4 };

/* Some are empty, some longer than a sample. */
static int64_t length_of(void *arg, int64_t document)
{
    (void)arg;
    return document % 9 == 4    ? 0
           : document % 11 == 3 ? LONGEST - document % 5
                                : 1 + document * 7 % 13;
}

static int draw(void *arg, int64_t document, int64_t epoch, uint64_t seed, void *const *fields)
{
    (void)epoch;
    (void)seed;
    for (int i = 0; i < length_of(arg, document); i++) {
        ((int32_t *)fields[0])[i] = (int32_t)document * 100 + i;
        ((float *)fields[1])[2 * i] = (float)document;
        ((float *)fields[1])[2 * i + 1] = (float)i;
    }
    return 0;
}

static const struct wk_field fields[] = {{"tokens", WK_I32, 1, {LONGEST}, true, -7},
                                         {"more", WK_F32, 2, {LONGEST, 2}, true, -1}};

static struct wk_source *packed(const struct wk_packing *packing)
{
    struct wk_source *source = NULL;
    struct error err = {0};
    struct wk_row_options options = {.count = DOCUMENTS,
                                     .fields = fields,
                                     .n_fields = 2,
                                     .read = draw,
                                     .length_of = length_of,
                                     .packing = packing};
    cr_assert_eq(source_rows(&options, &source, &err), 0, "%s", err.text);
    return source;
}

static struct wk_loader *loader_of(struct wk_source *source)
{
    struct wk_loader *loader;
    struct wk_loader_options options = {.source = source, .batch = 5, .epochs = 2, .seed = 3};
    cr_assert_eq(loader_new(&options, &loader, NULL), 0);
    return loader;
}

static int64_t positions_of_all(void)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < DOCUMENTS; i++)
        sum += length_of(NULL, i);
    return sum;
}

struct seen {
    int times[DOCUMENTS][LONGEST];
    int64_t samples, padding;
};

static const void *field(const struct wk_batch *batch, const char *name)
{
    for (int i = 0; i < batch->n_tensors; i++)
        if (!strcmp(batch->tensors[i].name, name))
            return batch->tensors[i].data;
    cr_assert_fail("no field %s", name);
    return NULL;
}

/* Position `at` of a sample, whose document begins at start. */
static void see(const struct wk_batch *batch, int64_t sample, int64_t at, struct seen *seen)
{
    const int32_t *tokens = (const int32_t *)field(batch, "tokens") + sample * LENGTH;
    const int32_t *targets = (const int32_t *)field(batch, "targets") + sample * LENGTH;
    const int32_t *starts = (const int32_t *)field(batch, "starts") + sample * LENGTH;
    const float *more = (const float *)field(batch, "more") + 2 * (sample * LENGTH + at);
    cr_assert(starts[at] == at || (at && starts[at] == starts[at - 1]));
    if (tokens[at] == -7) {
        cr_assert_eq(targets[at], WK_IGNORED);
        cr_assert_float_eq(more[0], -1, 0);
        seen->padding++;
        return;
    }
    int document = tokens[at] / 100, i = tokens[at] % 100;
    bool follows = at && starts[at] == starts[at - 1];
    seen->times[document][i]++;
    cr_assert(!follows || tokens[at] == tokens[at - 1] + 1);
    cr_assert_eq(targets[at], i + 1 < length_of(NULL, document) ? tokens[at] + 1 : WK_IGNORED);
    cr_assert_float_eq(more[0], (float)document, 0);
    cr_assert_float_eq(more[1], (float)i, 0);
}

/* All ranks from here on; a break after each batch comes back to the committed position. */
static void see_epoch(struct wk_source *source, int world, struct seen *seen)
{
    struct wk_loader *loaders[WORLDS];
    memset(seen, 0, sizeof(*seen));
    for (int r = 0; r < world; r++)
        loaders[r] = loader_of(source);
    for (int64_t b = 0; b < wk_loader_batches(loaders[0]); b++)
        for (int r = 0; r < world; r++) {
            struct wk_batch batch;
            int64_t before = loaders[r]->cursor;
            cr_assert_eq(loader_next(loaders[r], &(struct loader_place){r, world}, &batch, NULL),
                         1);
            loaders[r]->cursor = before;
            cr_assert_eq(loader_next(loaders[r], &(struct loader_place){r, world}, &batch, NULL),
                         1);
            cr_assert_eq(batch.length, LENGTH);
            seen->samples += batch.samples;
            for (int64_t i = 0; i < batch.samples * LENGTH; i++)
                see(&batch, i / LENGTH, i % LENGTH, seen);
        }
    for (int r = 0; r < world; r++)
        wk_loader_free(loaders[r]);
}

static void expect_all_once(const struct wk_packing *packing, int64_t most_padding)
{
    static struct seen seen;
    struct wk_source *source = packed(packing);
    for (int world = 1; world <= WORLDS; world++) {
        see_epoch(source, world, &seen);
        for (int64_t d = 0; d < DOCUMENTS; d++)
            for (int i = 0; i < LONGEST; i++)
                cr_assert_eq(seen.times[d][i], i < length_of(NULL, d), "position %d of %ld", i,
                             (long)d);
        cr_expect_eq(seen.samples, wk_source_count(source));
        cr_expect_eq(seen.samples * LENGTH - positions_of_all(), seen.padding);
        cr_expect_leq(seen.padding, most_padding, "%ld positions are padding", (long)seen.padding);
    }
    wk_source_free(source);
}

Test(packing, whole_documents_are_in_one_sample_each)
{
    expect_all_once(&(struct wk_packing){.length = LENGTH}, positions_of_all() / 10);
    expect_all_once(&(struct wk_packing){.length = LENGTH, .seed = 8}, positions_of_all() / 10);
}

Test(packing, cut_documents_leave_no_room)
{
    expect_all_once(&(struct wk_packing){.length = LENGTH, .cut = true}, LENGTH - 1);
    expect_all_once(&(struct wk_packing){.length = LENGTH, .cut = true, .seed = 8}, LENGTH - 1);
}

Test(packing, a_document_that_fits_is_not_cut)
{
    struct wk_source *source = packed(&(struct wk_packing){.length = LENGTH});
    struct wk_loader *loader = loader_of(source);
    struct wk_batch batch;
    bool whole[DOCUMENTS] = {false};
    for (int64_t b = 0; b < wk_loader_batches(loader); b++) {
        cr_assert_eq(loader_next(loader, &(struct loader_place){0, 1}, &batch, NULL), 1);
        const int32_t *tokens = field(&batch, "tokens"), *starts = field(&batch, "starts");
        for (int64_t i = 0; i < batch.samples * LENGTH; i++) {
            int64_t at = i % LENGTH, document = tokens[i] / 100, length;
            if (tokens[i] < 0 || (length = length_of(NULL, document)) > LENGTH)
                continue;
            cr_assert_eq(tokens[i] % 100, at - starts[i]);
            whole[document] |= tokens[i] % 100 == length - 1;
        }
    }
    for (int64_t d = 0; d < DOCUMENTS; d++)
        cr_expect(whole[d] || !length_of(NULL, d) || length_of(NULL, d) > LENGTH);
    wk_loader_free(loader);
    wk_source_free(source);
}

Test(packing, another_seed_packs_others_together)
{
    struct wk_source *a = packed(&(struct wk_packing){.length = LENGTH, .seed = 1});
    struct wk_source *b = packed(&(struct wk_packing){.length = LENGTH, .seed = 2});
    struct wk_source *c = packed(&(struct wk_packing){.length = LENGTH, .seed = 1});
    cr_expect_neq(source_digest(a), source_digest(b));
    cr_expect_eq(source_digest(a), source_digest(c));
    wk_source_free(a);
    wk_source_free(b);
    wk_source_free(c);
}

static int64_t no_length(void *arg, int64_t document)
{
    (void)arg;
    (void)document;
    return 0;
}

static int64_t too_long(void *arg, int64_t document)
{
    (void)arg;
    return document == 3 ? LONGEST + 1 : 1;
}

Test(packing, what_cannot_be_packed_is_refused)
{
    static const struct wk_field fixed[] = {{"tokens", WK_I32, 1, {LONGEST}, true, 0},
                                            {"label", WK_I32, 0, {0}, false, 0}};
    static const struct wk_field taken[] = {{"tokens", WK_I32, 1, {LONGEST}, true, 0},
                                            {"starts", WK_I32, 1, {LONGEST}, true, 0}};
    const struct {
        struct wk_packing packing;
        const struct wk_field *fields;
        int64_t (*length_of)(void *, int64_t);
        const char *sentence;
    } cases[] = {
        {{.length = 0}, fields, length_of, "length 0"},
        {{.length = LENGTH}, fixed, length_of, "field label does not vary"},
        {{.length = LENGTH}, taken, length_of, "field starts itself"},
        {{.length = LENGTH}, fields, no_length, "all documents are empty"},
        {{.length = LENGTH}, fields, too_long, "sample 3 has length 41"},
        {{.length = INT32_MAX}, fields, length_of, "at most 1073741824 bytes"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct wk_source *source;
        struct error err = {0};
        struct wk_row_options options = {.count = DOCUMENTS,
                                         .fields = cases[i].fields,
                                         .n_fields = 2,
                                         .read = draw,
                                         .length_of = cases[i].length_of,
                                         .packing = &cases[i].packing};
        cr_expect_eq(source_rows(&options, &source, &err), WK_EINVAL);
        cr_expect(strstr(err.text, cases[i].sentence), "%s", err.text);
    }
}
