/* Samples of any kind: images with labels, records, sound, results of simulations. A source of
 * rows has numbered samples; each has one row in every field. Loaders deal such samples as they
 * deal tokens (worker/data.h), and a graph's inputs find the fields by name.
 *
 *       static const struct wk_field fields[] = {{"pixels", WK_F32, 3, {1, 28, 28}},
 *                                                {"label", WK_I32, 0}};
 *       const struct wk_row_options digits = {60000, fields, 2, .read = draw_digit};
 *       wk_source_rows(ctx, &digits, &source);
 *
 * A batch has the array [samples, shape of the field] of each field in wk_batch.tensors. Its
 * denominator is the global batch's samples.
 *
 * Length. A field that `varies` has the sample's length as its first dimension, which is WK_LENGTH
 * to a graph. Its first size is the longest, and all such fields have the same. If no field varies,
 * the fields "tokens" and "targets" do where they are i32 or i64 with one dimension. In i32 these
 * two are wk_batch.tokens and wk_batch.targets as well. A batch is as long as the longest sample of
 * the global batch, on every rank; shorter samples are padded. Where there are such targets the
 * denominator is the sum of the samples' lengths. wk_batch.length is 1 if no field varies.
 */
#ifndef WORKER_ROWS_H
#define WORKER_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#include <worker/export.h>
#include <worker/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct wk_context;
struct wk_source;

enum {
    WK_FIELDS_MAX = 16,
    WK_FIELD_DIMS_MAX = 5,
    WK_FIELD_NAME_MAX = 63,     /* bytes */
    WK_ROW_BYTES_MAX = 1 << 30, /* of one sample, all fields together */
};
#define WK_ROWS_MAX ((int64_t)1 << 48) /* samples of a source */

struct wk_field {
    const char *name; /* of the graph's input; unique in its source */
    enum wk_dtype type;
    int dims;                         /* of one sample; 0 is one number */
    int64_t shape[WK_FIELD_DIMS_MAX]; /* row-major */
    bool varies;                      /* shape[0] is the longest sample's */
    /* What pads a shorter sample; 0 in f16 and bf16. "targets" is padded with WK_IGNORED. */
    double fill;
};

/* Packing: the rows are documents, and a sample is `length` positions of one or several of them.
 * Every position of every document is in exactly one sample. All fields vary.
 *
 * A sample also has the field "starts", i32 [length]: for each position the first one of its
 * document, as attention and positions read it (worker/graph.h). Documents with i32 "tokens" and no
 * "targets" get targets: the next token of the document, WK_IGNORED at its last. So no target is
 * that of another document. What no document fills is padded, and is a document of its own.
 *
 * The documents that are together follow from their lengths and the seed, the same in every epoch
 * and world. The loader's order is that of the samples. */
struct wk_packing {
    int64_t length; /* of a sample: 1 … 2^31 - 1 */
    /* Cut documents where a sample ends. The rest begins the next sample, as a document of its own:
     * only the last sample is padded. Else a document is in one sample if it fits in one: the first
     * with room for it, of the last 64 that were begun. */
    bool cut;
    uint64_t seed; /* of the order in which documents are packed; 0: by their numbers */
};

/* Set either `read` or `arrays`.
 *
 * `read` writes sample `sample` of [0, count): fields[i] is its row of field i. It writes every
 * element; where the field varies, those of the sample's own length. Rows may depend on the
 * arguments only, not on earlier calls. Then augmentation is the same at any world size and after a
 * resume; wk_noise is for the random numbers. `seed` is the loader's; `epoch` counts from 0, in
 * every evaluation again. Rows are aligned to their elements.
 *
 * `read` and `length_of` are called by wk_next, on its thread, and may call nothing of the context.
 * `read` returns 0 or an error of worker/error.h, which ends wk_next and is then the context's.
 * They, `arg` and `arrays` must live as long as the source. */
struct wk_row_options {
    int64_t count; /* samples, 1 … WK_ROWS_MAX */
    const struct wk_field *fields;
    int n_fields;
    int (*read)(void *arg, int64_t sample, int64_t epoch, uint64_t seed, void *const *fields);
    void *arg;
    /* [n_fields]: arrays[i][count, shape of the field] in memory, of which rows are copied. */
    const void *const *arrays;
    /* The sample's length, 0 … the longest; NULL: all are the longest. Every rank calls it for all
     * samples of the global batch, and all get the same. */
    int64_t (*length_of)(void *arg, int64_t sample);
    const struct wk_packing *packing; /* copied; NULL: each row is a sample */
};

/* A source of rows; the options and fields are copied. Free it with wk_source_free. WK_EINVAL with
 * a sentence that names the field and the limit, WK_ENOMEM. */
WK_API int wk_source_rows(struct wk_context *ctx, const struct wk_row_options *options,
                          struct wk_source **ret_source);

/* Random numbers by position, for `read`. The key is of one sample in one epoch; with it `index`
 * numbers independent values in [0, 1). Salmon et al. 2011 for the idea, the mixer is SplitMix64
 * (Steele et al. 2014). Pure; any thread; the same on every machine and in later versions. */
WK_API uint64_t wk_noise_key(uint64_t seed, int64_t epoch, int64_t sample);
WK_API double wk_noise(uint64_t key, uint64_t index);

#ifdef __cplusplus
}
#endif

#endif
