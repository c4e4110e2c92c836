/* Samples of rows: what is refused, what a batch has of them, and that they are the same at any
 * world and after any stop. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include <worker/nn.h>

#include "libworker/data/loader.h"

enum { LONGEST = 6, WIDTH = 3, WORLDS = 4 };

static int64_t length_of(void *arg, int64_t sample)
{
    (void)arg;
    return 1 + sample * 5 % LONGEST;
}

/* A sample's number, a picture with noise, and a sequence as long as length_of says. */
static int read_all(void *arg, int64_t sample, int64_t epoch, uint64_t seed, void *const *fields)
{
    uint64_t key = wk_noise_key(seed, epoch, sample);
    int64_t length = length_of(arg, sample);
    *(int64_t *)fields[0] = sample;
    for (int i = 0; i < 4; i++)
        ((float *)fields[1])[i] = (float)(wk_noise(key, (uint64_t)i) + (double)sample);
    for (int64_t i = 0; i < length; i++) {
        ((int32_t *)fields[2])[i] = (int32_t)(sample * 10 + i);
        ((int32_t *)fields[4])[i] = (int32_t)i;
        for (int w = 0; w < WIDTH; w++)
            ((uint8_t *)fields[3])[i * WIDTH + w] = (uint8_t)(sample + w);
    }
    return 0;
}

static const struct wk_field all_fields[] = {
    {"number", WK_I64, 0, {0}, false, 0},       {"picture", WK_F32, 2, {2, 2}, false, 0},
    {"tokens", WK_I32, 1, {LONGEST}, true, -7}, {"frames", WK_U8, 2, {LONGEST, WIDTH}, true, 255},
    {"targets", WK_I32, 1, {LONGEST}, true, 0},
};

static struct wk_source *source_of(const struct wk_row_options *options)
{
    struct wk_source *source = NULL;
    struct error err = {0};
    cr_assert_eq(source_rows(options, &source, &err), 0, "%s", err.text);
    return source;
}

static struct wk_source *varied(int64_t count)
{
    return source_of(&(struct wk_row_options){.count = count,
                                              .fields = all_fields,
                                              .n_fields = 5,
                                              .read = read_all,
                                              .length_of = length_of});
}

static struct wk_loader *loader_of(struct wk_source *source, int64_t batch, int64_t epochs)
{
    struct wk_loader *loader;
    struct error err = {0};
    struct wk_loader_options options = {
        .source = source, .batch = batch, .epochs = epochs, .seed = 5};
    cr_assert_eq(loader_new(&options, &loader, &err), 0, "%s", err.text);
    return loader;
}

/* What a sample's rows must be, padded to `length`, with the noise of its epoch. */
static void expect_rows(const struct wk_batch *batch, int64_t i, int64_t epoch)
{
    const struct wk_batch_tensor *t = batch->tensors;
    int64_t sample = ((const int64_t *)t[0].data)[i], length = batch->length;
    uint64_t key = wk_noise_key(5, epoch, sample);
    for (int k = 0; k < 4; k++)
        cr_assert_eq(((const float *)t[1].data)[i * 4 + k],
                     (float)(wk_noise(key, (uint64_t)k) + (double)sample));
    for (int64_t p = 0; p < length; p++) {
        bool real = p < length_of(NULL, sample);
        cr_assert_eq(batch->tokens[i * length + p], real ? (int32_t)(sample * 10 + p) : -7);
        cr_assert_eq(batch->targets[i * length + p], real ? (int32_t)p : WK_IGNORED);
        for (int w = 0; w < WIDTH; w++)
            cr_assert_eq(((const uint8_t *)t[3].data)[(i * length + p) * WIDTH + w],
                         real ? (uint8_t)(sample + w) : 255);
    }
}

/* One global batch of all ranks: its samples to ret, in order; 0 at the end. */
static int64_t deal_batch(struct wk_loader **loaders, int world, int64_t *ret)
{
    int64_t longest = 1, positions = 0, n = 0;
    double shares = 0;
    struct wk_batch batch;
    for (int rank = 0; rank < world; rank++) {
        struct loader_place place = {rank, world};
        struct error err = {0};
        int rc = loader_next(loaders[rank], &place, &batch, &err);
        cr_assert_geq(rc, 0, "%s", err.text);
        if (!rc)
            return 0;
        cr_assert_eq(batch.first, n);
        cr_assert(loader_dealt(loaders[rank], &batch));
        cr_assert(!rank || !loader_dealt(loaders[rank - 1], &batch));
        for (int64_t i = 0; i < batch.samples; i++) {
            expect_rows(&batch, i, batch.position / loaders[rank]->samples);
            ret[n++] = ((const int64_t *)batch.tensors[0].data)[i];
        }
        shares += loaders[rank]->own / batch.denominator;
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t length = length_of(NULL, ret[i]);
        longest = length > longest ? length : longest;
        positions += length;
    }
    cr_assert_eq(n, batch.global_samples);
    cr_assert_eq(batch.length, longest);
    cr_assert_eq(batch.denominator, (double)positions);
    cr_assert_float_eq(shares, 1, 1e-12);
    return n;
}

struct run {
    int world;
    int64_t batch;
    int batches;
};

/* Go on from *position; samples to ret. */
static int64_t deal(struct wk_source *source, struct run run, int64_t *position, int64_t *ret)
{
    struct wk_loader *loaders[WORLDS];
    int64_t n = 0, dealt = 1;
    for (int r = 0; r < run.world; r++) {
        loaders[r] = loader_of(source, run.batch, 2);
        cr_assert_eq(loader_seek(loaders[r], *position), 0);
    }
    for (int b = 0; b < run.batches && dealt; b++) {
        dealt = deal_batch(loaders, run.world, ret + n);
        n += dealt;
    }
    *position = wk_loader_position(loaders[0]);
    for (int r = 0; r < run.world; r++)
        wk_loader_free(loaders[r]);
    return n;
}

/* Stopped after any batch of any size at any world, gone on with any other, and once more. */
Test(rows, any_resume_at_any_size_and_world_deals_the_same_rows_once)
{
    enum { SAMPLES = 7, ALL = 2 * SAMPLES, SIZES = 4 };
    static int64_t one[ALL + 1], other[3 * ALL];
    struct wk_source *source = varied(SAMPLES);
    int64_t position = 0;
    int seen[2][SAMPLES] = {{0}};
    cr_assert_eq(deal(source, (struct run){1, 1, ALL + 1}, &position, one), ALL);
    for (int i = 0; i < ALL; i++)
        seen[i / SAMPLES][one[i]]++;
    for (int i = 0; i < ALL; i++)
        cr_assert_eq(seen[i / SAMPLES][i % SAMPLES], 1);
    for (int i = 0; i < SIZES * SIZES * WORLDS * WORLDS; i++)
        for (int stop = 0; stop <= ALL; stop++) {
            struct run first = {1 + i / SIZES / SIZES % WORLDS, 1 + i % SIZES, stop};
            struct run next = {1 + i / SIZES / SIZES / WORLDS, 1 + i / SIZES % SIZES, 1};
            int64_t n = 0;
            position = 0;
            n += deal(source, first, &position, other);
            n += deal(source, next, &position, other + n);
            first.batches = ALL;
            n += deal(source, first, &position, other + n);
            cr_assert_eq(n, ALL);
            cr_assert_arr_eq(one, other, sizeof(*one) * ALL);
        }
    wk_source_free(source);
}

static float images[5][4];
static int32_t labels[5];
static int64_t texts[5][LONGEST];

static struct wk_source *in_memory(void)
{
    static const struct wk_field fields[] = {{"pixels", WK_F32, 3, {1, 2, 2}, false, 0},
                                             {"targets", WK_I32, 0, {0}, false, 0},
                                             {"text", WK_I64, 1, {LONGEST}, true, -1}};
    static const void *const arrays[] = {images, labels, texts};
    for (int i = 0; i < 5; i++) {
        labels[i] = i;
        for (int k = 0; k < 4; k++)
            images[i][k] = (float)(10 * i + k);
        for (int k = 0; k < LONGEST; k++)
            texts[i][k] = 100 * i + k;
    }
    return source_of(&(struct wk_row_options){
        .count = 5, .fields = fields, .n_fields = 3, .arrays = arrays, .length_of = length_of});
}

static void expect_copies(const struct wk_batch *batch)
{
    cr_assert_eq(batch->n_tensors, 3);
    cr_expect_eq(batch->tensors[0].elements, 4);
    cr_expect_eq(batch->tensors[1].elements, 1);
    cr_expect_eq(batch->tensors[2].elements, batch->length);
    for (int i = 0; i < batch->samples; i++) {
        int32_t label = ((const int32_t *)batch->tensors[1].data)[i];
        const int64_t *text = (const int64_t *)batch->tensors[2].data + i * batch->length;
        cr_expect_arr_eq((const float *)batch->tensors[0].data + i * 4, images[label],
                         sizeof(images[0]));
        for (int k = 0; k < batch->length; k++)
            cr_expect_eq(text[k], k < length_of(NULL, label) ? 100 * label + k : -1);
    }
}

Test(rows, of_arrays_are_copied_and_padded)
{
    const struct loader_place second = {1, 2}, alone = {0, 1};
    struct wk_batch batch;
    struct wk_source *source = in_memory();
    struct wk_loader *loader = loader_of(source, 5, 1), *single = loader_of(source, 1, 1);
    cr_assert_eq(loader_next(loader, &second, &batch, NULL), 1);
    cr_assert_eq(batch.samples, 2);
    cr_expect_null(batch.tokens);
    cr_expect_null(batch.targets, "targets of one number are a field like others");
    cr_expect_eq(batch.denominator, 5, "the samples");
    cr_expect_eq(batch.length, LONGEST, "the other rank has the longest");
    expect_copies(&batch);
    while (loader_next(single, &alone, &batch, NULL) == 1)
        expect_copies(&batch);
    wk_loader_free(loader);
    wk_loader_free(single);
    wk_source_free(source);
}

/* Batches without tokens are told apart too, those of two loaders at one place as well. */
Test(rows, a_batch_is_known_to_its_loader_only)
{
    const struct loader_place alone = {0, 1};
    struct wk_batch one, other;
    struct wk_source *source = in_memory();
    struct wk_loader *a = loader_of(source, 2, 1), *b = loader_of(source, 2, 1);
    cr_assert_eq(loader_next(a, &alone, &one, NULL), 1);
    cr_assert_eq(loader_next(b, &alone, &other, NULL), 1);
    cr_expect(loader_dealt(a, &one) && loader_dealt(b, &other));
    cr_expect(!loader_dealt(a, &other) && !loader_dealt(b, &one));
    cr_assert_eq(loader_next(a, &alone, &other, NULL), 1);
    cr_expect(loader_dealt(a, &other) && !loader_dealt(a, &one));
    wk_loader_free(a);
    wk_loader_free(b);
    wk_source_free(source);
}

/* Without a field that varies, i32 tokens and targets do: a text of the program's own. */
Test(rows, named_tokens_and_targets_are_the_batch_s)
{
    static int32_t tokens[4][LONGEST], targets[4][LONGEST];
    static const struct wk_field fields[] = {{"tokens", WK_I32, 1, {LONGEST}, false, 0},
                                             {"targets", WK_I32, 1, {LONGEST}, false, 0}};
    const void *const arrays[] = {tokens, targets};
    const struct loader_place alone = {0, 1};
    struct wk_batch batch;
    struct wk_source *source = source_of(
        &(struct wk_row_options){.count = 4, .fields = fields, .n_fields = 2, .arrays = arrays});
    struct wk_loader *loader = loader_of(source, 3, 1);
    for (int i = 0; i < 4 * LONGEST; i++) {
        tokens[i / LONGEST][i % LONGEST] = i;
        targets[i / LONGEST][i % LONGEST] = i + 1;
    }
    cr_assert_eq(loader_next(loader, &alone, &batch, NULL), 1);
    cr_expect_eq(batch.length, LONGEST);
    cr_expect_eq(batch.denominator, 3 * LONGEST);
    cr_expect_eq(batch.tokens, batch.tensors[0].data);
    cr_expect_eq(batch.targets, batch.tensors[1].data);
    for (int i = 0; i < 3 * LONGEST; i++)
        cr_expect_eq(batch.targets[i], batch.tokens[i] + 1);
    wk_loader_free(loader);
    wk_source_free(source);
}

static const char text[] = "In the beginning was the word, and so on";

static int read_text(void *arg, int64_t sample, int64_t epoch, uint64_t seed, void *const *fields)
{
    (void)arg;
    (void)epoch;
    (void)seed;
    for (int i = 0; i < LONGEST; i++) {
        ((int32_t *)fields[0])[i] = text[sample * LONGEST + i];
        ((int32_t *)fields[1])[i] = text[sample * LONGEST + i + 1];
    }
    return 0;
}

/* The same text as a source of tokens and as rows: the same batches, in all that models read. */
Test(rows, of_a_text_are_dealt_as_its_tokens_are)
{
    static const struct wk_field fields[] = {{"tokens", WK_I32, 1, {LONGEST}, false, 0},
                                             {"targets", WK_I32, 1, {LONGEST}, false, 0}};
    enum { SAMPLES = (sizeof(text) - 2) / LONGEST };
    struct wk_batch a, b;
    struct wk_source *rows = source_of(&(struct wk_row_options){
        .count = SAMPLES, .fields = fields, .n_fields = 2, .read = read_text});
    struct wk_source *tokens;
    struct wk_loader *by_tokens, *by_rows = loader_of(rows, 4, 2);
    cr_assert_eq(source_bytes(text, sizeof(text) - 1, &tokens, NULL), 0);
    struct wk_loader_options options = {
        .source = tokens, .length = LONGEST, .batch = 4, .epochs = 2, .seed = 5};
    cr_assert_eq(loader_new(&options, &by_tokens, NULL), 0);
    const struct loader_place first = {0, 2};
    int batches = 0;
    for (; loader_next(by_tokens, &first, &a, NULL) == 1; batches++) {
        size_t bytes = (size_t)a.samples * LONGEST * sizeof(int32_t);
        cr_assert_eq(loader_next(by_rows, &first, &b, NULL), 1);
        cr_expect(a.samples == b.samples && a.position == b.position && a.length == b.length);
        cr_expect_eq(a.denominator, b.denominator);
        cr_expect_arr_eq(a.tokens, b.tokens, bytes);
        cr_expect_arr_eq(a.targets, b.targets, bytes);
    }
    cr_expect_eq(batches, 2 * ((SAMPLES + 3) / 4));
    cr_expect_eq(loader_next(by_rows, &first, &b, NULL), 0);
    wk_loader_free(by_tokens);
    wk_loader_free(by_rows);
    wk_source_free(tokens);
    wk_source_free(rows);
}

/* A window of three batches that are 3, 3 and 1 samples, each as long as its own: together their
 * losses are the mean over all positions. */
Test(rows, a_step_s_batches_are_weighed_by_their_positions)
{
    enum { SAMPLES = 7 };
    struct wk_source *source = varied(SAMPLES);
    struct wk_loader *loader = loader_of(source, 3, 1);
    const struct loader_place alone = {0, 1};
    struct wk_batch batch;
    int64_t all = 0;
    for (int64_t i = 0; i < SAMPLES; i++)
        all += length_of(NULL, i);
    for (int b = 0; b < 3; b++) {
        cr_assert_eq(loader_next(loader, &alone, &batch, NULL), 1);
        batch.denominator = loader_weigh(loader, 3, b == 0);
        cr_expect_float_eq(batch.denominator, (double)all / 3, 1e-12);
        cr_expect(loader_dealt(loader, &batch));
    }
    wk_loader_free(loader);
    wk_source_free(source);
}

static int fail_at_four(void *arg, int64_t sample, int64_t epoch, uint64_t seed,
                        void *const *fields)
{
    (void)epoch;
    (void)seed;
    memset(fields[0], 0, 4);
    return sample == 4 ? *(const int *)arg : 0;
}

static const struct wk_field one_number[] = {{"number", WK_F32, 0, {0}, false, 0}};

Test(rows, an_error_of_the_program_is_the_loader_s)
{
    static const struct {
        int code, is;
    } rows[] = {{WK_EIO, WK_EIO}, {-77, -77}, {3, WK_EINVAL}};
    const struct loader_place alone = {0, 1};
    struct wk_batch batch;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int code = rows[i].code;
        struct error err = {0};
        struct wk_source *source = source_of(&(struct wk_row_options){
            .count = 5, .fields = one_number, .n_fields = 1, .read = fail_at_four, .arg = &code});
        struct wk_loader *loader = loader_of(source, 5, 1);
        cr_expect_eq(loader_next(loader, &alone, &batch, &err), rows[i].is);
        cr_expect(strstr(err.text, "sample 4 of epoch 0"), "%s", err.text);
        cr_expect_eq(wk_loader_position(loader), 0);
        wk_loader_free(loader);
        wk_source_free(source);
    }
}

static int64_t too_long(void *arg, int64_t sample)
{
    (void)arg;
    return sample == 2 ? LONGEST + 1 : 0;
}

Test(rows, lengths_out_of_bounds_are_refused_and_zero_is_none)
{
    const struct loader_place alone = {0, 1};
    struct wk_batch batch;
    struct error err = {0};
    struct wk_row_options options = {
        .count = 2, .fields = all_fields, .n_fields = 5, .read = read_all, .length_of = too_long};
    struct wk_source *empty = source_of(&options);
    struct wk_loader *loader = loader_of(empty, 2, 1);
    cr_assert_eq(loader_next(loader, &alone, &batch, &err), 1, "%s", err.text);
    cr_expect_eq(batch.length, 1, "a batch has a length, if only of padding");
    cr_expect_eq(batch.denominator, 1);
    wk_loader_free(loader);
    wk_source_free(empty);
    options.count = 3;
    struct wk_source *source = source_of(&options);
    loader = loader_of(source, 3, 1);
    cr_expect_eq(loader_next(loader, &alone, &batch, &err), WK_EINVAL);
    cr_expect(strstr(err.text, "sample 2 has length 7: it must be 0 to 6"), "%s", err.text);
    wk_loader_free(loader);
    wk_source_free(source);
}

Test(rows, what_cannot_be_is_named)
{
    static const char long_name[] =
        "0123456789012345678901234567890123456789012345678901234567890123";
    static const struct {
        struct wk_field fields[2];
        int n;
        const char *says;
    } rows[] = {
        {{{NULL, WK_F32, 0, {0}, false, 0}}, 1, "field 1 of 16 has no name"},
        {{{long_name, WK_F32, 0, {0}, false, 0}}, 1, "at most 63 bytes"},
        {{{"x", (enum wk_dtype)99, 0, {0}, false, 0}}, 1, "field x: 99 is no type"},
        {{{"x", WK_F32, 6, {1, 1, 1, 1, 1}, false, 0}}, 1, "6 dimensions: a sample has 0 to 5"},
        {{{"x", WK_F32, 2, {3, 0}, false, 0}}, 1, "size 0 of dimension 1"},
        {{{"x", WK_F32, 2, {1 << 20, 1 << 20}, false, 0}}, 1, "at most 1073741824 bytes"},
        {{{"x", WK_U8, 1, {1 << 30}, false, 0}, {"y", WK_U8, 0, {0}, false, 0}},
         2,
         "has 1073741825 bytes"},
        {{{"x", WK_U8, 0, {0}, true, 0}}, 1, "no dimension that could"},
        {{{"x", WK_U8, 1, {3}, true, 256}}, 1, "256 cannot fill"},
        {{{"x", WK_I32, 1, {3}, true, .5}}, 1, "0.5 cannot fill"},
        {{{"x", WK_F16, 1, {3}, true, 1}}, 1, "1 cannot fill"},
        {{{"x", WK_U8, 0, {0}, false, 0}, {"x", WK_U8, 0, {0}, false, 0}}, 2, "two fields"},
        {{{"x", WK_U8, 1, {3}, true, 0}, {"y", WK_U8, 1, {4}, true, 0}}, 2, "have one length"},
    };
    struct wk_source *source = NULL;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct error err = {0};
        struct wk_row_options options = {
            .count = 1, .fields = rows[i].fields, .n_fields = rows[i].n, .read = read_all};
        cr_expect_eq(source_rows(&options, &source, &err), WK_EINVAL, "row %zu", i);
        cr_expect(strstr(err.text, rows[i].says), "%s", err.text);
    }
    cr_expect_null(source);
}

Test(rows, options_that_cannot_be_are_named)
{
    static const void *const nothing[] = {NULL};
    static const float number;
    static const void *const numbers[] = {&number};
    const struct {
        struct wk_row_options options;
        const char *says;
    } rows[] = {
        {{0, one_number, 1, read_all, NULL, NULL, NULL}, "a source of 0 rows"},
        {{WK_ROWS_MAX + 1, one_number, 1, read_all, NULL, NULL, NULL}, "1 to 281474976710656"},
        {{1, one_number, 17, read_all, NULL, NULL, NULL}, "1 to 16 fields, this one 17"},
        {{1, NULL, 1, read_all, NULL, NULL, NULL}, "1 to 16 fields, this one 0"},
        {{1, one_number, 1, NULL, NULL, NULL, NULL}, "this one has neither"},
        {{1, one_number, 1, read_all, NULL, numbers, NULL}, "this one has both"},
        {{1, one_number, 1, NULL, NULL, nothing, NULL}, "the array of field 1 is NULL"},
        {{1, one_number, 1, read_all, NULL, NULL, length_of}, "no field varies"},
    };
    struct wk_source *source = NULL;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct error err = {0};
        cr_expect_eq(source_rows(&rows[i].options, &source, &err), WK_EINVAL, "row %zu", i);
        cr_expect(strstr(err.text, rows[i].says), "%s", err.text);
    }
    struct error err = {0};
    struct wk_loader *loader = NULL;
    source = varied(4);
    struct wk_loader_options with_length = {.source = source, .length = 4, .batch = 1};
    cr_expect_eq(loader_new(&with_length, &loader, &err), WK_EINVAL);
    cr_expect(strstr(err.text, "length is 4: it must be 0 for a source of rows"), "%s", err.text);
    wk_source_free(source);
}

/* More than any machine can address; it is refused before memory is asked for. */
Test(rows, a_batch_too_large_is_no_memory)
{
    static const struct wk_field large[] = {{"x", WK_U8, 1, {1 << 30}, false, 0}};
    const struct loader_place alone = {0, 1};
    struct wk_batch batch;
    struct error err = {0};
    struct wk_source *source = source_of(&(struct wk_row_options){
        .count = WK_ROWS_MAX, .fields = large, .n_fields = 1, .read = read_all});
    for (int64_t size = (int64_t)1 << 34; size <= WK_ROWS_MAX; size <<= 7) {
        struct wk_loader *loader = loader_of(source, size, 1);
        cr_expect_eq(loader_next(loader, &alone, &batch, &err), WK_ENOMEM);
        wk_loader_free(loader);
    }
    wk_source_free(source);
}

static uint64_t digest_of(const struct wk_row_options *options)
{
    struct wk_source *source = source_of(options);
    uint64_t digest = source_digest(source);
    wk_source_free(source);
    return digest;
}

Test(rows, the_digest_tells_data_sets_apart)
{
    static float numbers[3][2];
    static const void *const arrays[] = {numbers};
    static const struct wk_field fields[] = {
        {"x", WK_F32, 1, {2}, false, 0},    {"y", WK_F32, 1, {2}, false, 0},
        {"x", WK_I32, 1, {2}, false, 0},    {"x", WK_F32, 2, {2, 1}, false, 0},
        {"x", WK_F32, 2, {1, 2}, false, 0}, {"x", WK_F32, 1, {2}, true, 0},
        {"x", WK_F32, 1, {2}, true, 1},
    };
    enum { KINDS = sizeof(fields) / sizeof(fields[0]) };
    uint64_t digests[KINDS + 1];
    for (int i = 0; i < KINDS; i++) {
        struct wk_row_options options = {
            .count = 3, .fields = &fields[i], .n_fields = 1, .arrays = arrays};
        digests[i] = digest_of(&options);
        cr_expect_eq(digests[i], digest_of(&options));
    }
    numbers[2][1] = 1;
    digests[KINDS] = digest_of(&(struct wk_row_options){
        .count = 3, .fields = &fields[0], .n_fields = 1, .arrays = arrays});
    for (int i = 0; i <= KINDS; i++)
        for (int k = 0; k < i; k++)
            cr_expect_neq(digests[i], digests[k], "%d and %d", i, k);
}

/* Uniform in [0, 1), another stream for each part of the key, and never another sequence. */
Test(noise, is_uniform_and_its_streams_differ)
{
    enum { N = 4000 };
    static const uint64_t keys[][3] = {{1, 0, 0}, {2, 0, 0}, {1, 1, 0}, {1, 0, 1}, {0, 1, 1}};
    enum { KEYS = sizeof(keys) / sizeof(keys[0]) };
    double sums[KEYS] = {0}, products = 0;
    for (int k = 0; k < KEYS; k++) {
        uint64_t key = wk_noise_key(keys[k][0], (int64_t)keys[k][1], (int64_t)keys[k][2]);
        for (uint64_t i = 0; i < N; i++) {
            double x = wk_noise(key, i);
            cr_assert(x >= 0 && x < 1);
            sums[k] += x;
            products += (x - .5) * (wk_noise(wk_noise_key(1, 0, 0), i) - .5) * (k > 0);
        }
    }
    /* Five standard deviations: 1/sqrt(12 N) of a mean, 1/12 sqrt(4 N) of the products. */
    for (int k = 0; k < KEYS; k++)
        cr_expect_float_eq(sums[k] / N, .5, 5 * .00457);
    cr_expect(products < 53 && products > -53, "%g", products);
    cr_expect_float_eq(wk_noise(wk_noise_key(1, 2, 3), 4), 0x1.33c5321194e1dp-1, 1e-15);
}
