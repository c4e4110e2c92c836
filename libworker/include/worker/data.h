/* Samples and their order.
 *
 * A source is a sequence of tokens: the bytes of a text, or a memory-mapped file of 16- or 32-bit
 * numbers. A loader cuts it into samples of `length` tokens, with the next tokens as targets. Other
 * samples are those of a source of rows (worker/rows.h). The loader deals the samples in an order
 * fixed by the seed, and each rank has its share of every global batch.
 *
 * The position in the data is a global sample count. It is the same at any world size and is part
 * of checkpoints. Every sample is therefore dealt exactly once per epoch, however often the job is
 * resized or restarted. The exception is drop_last, which leaves out the samples after the last
 * full batch.
 *
 * Both objects belong to the caller. Free them after the context they were used in, the loader
 * first. One thread per loader; loaders may share a source. `ctx` receives the sentence of a
 * failure, which is then the context's error, and may be NULL. A loader's `ctx` also receives the
 * error of using it in wk_next without wk_prepare.
 */
#ifndef WORKER_DATA_H
#define WORKER_DATA_H

#include <stdbool.h>
#include <stdint.h>

#include <worker/export.h>
#include <worker/rows.h>
#include <worker/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct wk_context;
struct wk_source;
struct wk_loader;

enum wk_source_format {
    WK_SOURCE_AUTO, /* llm.c's header if there is one, else text */
    WK_SOURCE_TEXT, /* each byte is a token, 0…255 */
    WK_SOURCE_U16,  /* little-endian numbers without a header */
    WK_SOURCE_U32,
    WK_SOURCE_LLMC, /* 1024 bytes of header, then uint16 (magic 20240520) or uint32 (20240801) */
};

/* Map a file. The file must not shrink while it is open. WK_ENOTFOUND, WK_EIO, WK_EINVAL (empty, or
 * its header does not match the size), WK_ENOMEM. */
WK_API int wk_source_open(struct wk_context *ctx, const char *path, enum wk_source_format format,
                          struct wk_source **ret_source);

/* The bytes of a text in memory, copied. */
WK_API int wk_source_bytes(struct wk_context *ctx, const void *data, size_t size,
                           struct wk_source **ret_source);

WK_API int64_t wk_source_count(const struct wk_source *source); /* tokens or rows */
WK_API void wk_source_free(struct wk_source *source);           /* NULL is fine */

struct wk_loader_options {
    struct wk_source *source;
    int64_t length;  /* tokens of a sample; 0 for a source of rows */
    int64_t batch;   /* samples of a global batch, over all ranks */
    int64_t epochs;  /* passes over the source; 0 = for ever */
    uint64_t seed;   /* 0 uses the setting `seed` */
    bool sequential; /* in file order instead of shuffled */
    bool drop_last;  /* an epoch ends with its last full batch; else a smaller one follows */
    /* Not a training loader: its batches are outside steps and total_steps. After wk_next has
     * returned false it starts from the beginning. */
    bool evaluation;
    int64_t batches; /* limit on global batches over all epochs; 0 = only `epochs` limits */
    enum wk_source_format format; /* of wk_loader_in's file (worker/owned.h) */
};

/* WK_EINVAL if the source has no sample of this length, or with drop_last no full batch. */
WK_API int wk_loader_new(struct wk_context *ctx, const struct wk_loader_options *options,
                         struct wk_loader **ret_loader);
WK_API void wk_loader_free(struct wk_loader *loader); /* NULL is fine */

WK_API int64_t wk_loader_samples(const struct wk_loader *loader); /* of one epoch */
WK_API int64_t wk_loader_batches(const struct wk_loader *loader); /* of one epoch, as yielded */

/* Global samples dealt so far. Set it only on evaluation loaders that were left before their end.
 * WK_ESTATE for a training loader in a context, because the context owns its position. WK_EINVAL
 * for a negative position. Both are the context's error. */
WK_API int64_t wk_loader_position(const struct wk_loader *loader);
WK_API int wk_loader_seek(struct wk_loader *loader, int64_t position);

/* Deals index batches of `batch` samples to ranks, for programs with their own data. The rules are
 * those of Hugging Face Accelerate, element by element (accelerate/data_loader.py,
 * BatchSamplerShard). With even_batches and without split_batches they are also those of
 * IterableDatasetShard. Pure arithmetic: any thread, any batch, no state, so a stream that can seek
 * can be entered anywhere.
 *
 * Ranks get whole batches in turn, or share each batch with split_batches. With even_batches the
 * last round is filled up from the beginning, so that all ranks make the same number of steps.
 * Without it some ranks have a shorter batch there or none.
 */
struct wk_deal {
    int64_t samples;
    int64_t batch; /* of one rank; with split_batches of all ranks */
    bool split_batches, even_batches, drop_last;
};

/* WK_EINVAL: the ranks cannot share the batch evenly, there is nothing to share, or no rank. The
 * functions below assume that this returned 0. */
WK_API int wk_deal_check(const struct wk_deal *deal, int world);

/* Number of batches of `rank`; each has elements. */
WK_API int64_t wk_deal_batches(const struct wk_deal *deal, int rank, int world);

/* Positions, in sampler order, of the elements of `rank`'s batch k. Returns their number. */
WK_API int64_t wk_deal_batch(const struct wk_deal *deal, int rank, int world, int64_t k,
                             int64_t *ret_indices);

/* Number of elements of round k, over all ranks, that are not padding. They are before the
 * padding, in rank order. */
WK_API int64_t wk_deal_real(const struct wk_deal *deal, int world, int64_t k);

/* Collect values[samples, width] of all ranks for a batch from wk_next, in global order:
 * ret_all[global_samples, width] on every rank, with exactly one row per sample. All ranks call it.
 * Writes nothing in a broken generation or in an evaluation that was cut short. */
WK_API int wk_gather_for_metrics(struct wk_context *ctx, const struct wk_batch *batch,
                                 const float *values, int64_t width, float *ret_all);

#ifdef __cplusplus
}
#endif

#endif
