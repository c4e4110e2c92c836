/* Where samples come from and in which order.
 *
 * A source is a sequence of tokens: the bytes of a text, or a memory-mapped file of 16- or 32-bit
 * numbers. A loader cuts it into samples of `length` tokens with their successors as targets, deals
 * them in an order fixed by the seed, and gives each rank its share of every global batch. The
 * position in the data is a global sample count: the same at any world size, kept in checkpoints,
 * so every sample comes exactly once per epoch however often the job is resized or restarted.
 *
 * Both belong to the caller: free the loader first, both after the context they were used in. One
 * thread per loader; a source may be shared by loaders. `ctx` only receives the sentence of a
 * failure (which is then the context's error) and may be NULL;
 * and of a loader that it is used in wk_next without wk_prepare.
 */
#ifndef WORKER_DATA_H
#define WORKER_DATA_H

#include <stdbool.h>
#include <stdint.h>

#include <worker/export.h>
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

/* Map a file. It must not shrink while it is open. WK_ENOTFOUND, WK_EIO, WK_EINVAL (empty, or a
 * header that does not match the size), WK_ENOMEM. */
WK_API int wk_source_open(struct wk_context *ctx, const char *path, enum wk_source_format format,
                          struct wk_source **ret_source);

/* The bytes of a text in memory, copied. */
WK_API int wk_source_bytes(struct wk_context *ctx, const void *data, size_t size,
                           struct wk_source **ret_source);

WK_API int64_t wk_source_count(const struct wk_source *source); /* tokens */
WK_API void wk_source_free(struct wk_source *source);           /* NULL is fine */

struct wk_loader_options {
    struct wk_source *source;
    int64_t length;  /* tokens of a sample */
    int64_t batch;   /* samples of a global batch, over all ranks */
    int64_t epochs;  /* passes over the source; 0 = for ever */
    uint64_t seed;   /* 0 takes the setting `seed` */
    bool sequential; /* in file order instead of shuffled */
    bool drop_last;  /* an epoch ends with its last full batch; else a smaller one follows */
    /* Not a training loader: its batches are outside steps and total_steps, and where wk_next has
     * returned false it begins anew. */
    bool evaluation;
    int64_t batches; /* global batches of all epochs after which it ends; 0 = as epochs say */
    enum wk_source_format format; /* of wk_loader_in's file (worker/owned.h) */
};

/* WK_EINVAL when the source has not one sample of this length, or no full batch with drop_last. */
WK_API int wk_loader_new(struct wk_context *ctx, const struct wk_loader_options *options,
                         struct wk_loader **ret_loader);
WK_API void wk_loader_free(struct wk_loader *loader); /* NULL is fine */

WK_API int64_t wk_loader_samples(const struct wk_loader *loader); /* of one epoch */
WK_API int64_t wk_loader_batches(const struct wk_loader *loader); /* of one epoch, as yielded */

/* Global samples dealt so far. Setting it is for evaluation loaders left before their end:
 * WK_ESTATE for a training loader in a context, whose position the context keeps; WK_EINVAL for a
 * negative one. Both are the context's error. */
WK_API int64_t wk_loader_position(const struct wk_loader *loader);
WK_API int wk_loader_seek(struct wk_loader *loader, int64_t position);

/* How index batches of `batch` samples are dealt to ranks, for programs with data of their own: the
 * rules of Hugging Face Accelerate, element by element (accelerate/data_loader.py,
 * BatchSamplerShard; with even_batches and without split_batches also IterableDatasetShard). Pure
 * arithmetic: any thread, any batch, no state, so streams that can seek are entered anywhere.
 *
 * Ranks take turns by batches, or share each batch with split_batches. What is missing in the last
 * round is filled from the beginning with even_batches, so that all ranks make as many steps; else
 * it is shorter on some ranks or missing there.
 */
struct wk_deal {
    int64_t samples;
    int64_t batch; /* of one rank; of all ranks with split_batches */
    bool split_batches, even_batches, drop_last;
};

/* WK_EINVAL: a batch that the ranks cannot share evenly, nothing to share, no rank. The others
 * assume 0. */
WK_API int wk_deal_check(const struct wk_deal *deal, int world);

/* Batches that `rank` gets; exactly as many have elements. */
WK_API int64_t wk_deal_batches(const struct wk_deal *deal, int rank, int world);

/* Positions, in sampler order, of the elements of `rank`'s batch k. Returns how many. */
WK_API int64_t wk_deal_batch(const struct wk_deal *deal, int rank, int world, int64_t k,
                             int64_t *ret_indices);

/* Elements of round k over all ranks that are no filling; they come before it, in rank order. */
WK_API int64_t wk_deal_real(const struct wk_deal *deal, int world, int64_t k);

/* This rank's values[samples, width] of a batch from wk_next, put together in global order:
 * ret_all[global_samples, width] on every rank, exactly one row for each sample. All ranks call it.
 * Nothing is written in a broken generation, nor of an evaluation that was cut short. */
WK_API int wk_gather_for_metrics(struct wk_context *ctx, const struct wk_batch *batch,
                                 const float *values, int64_t width, float *ret_all);

#ifdef __cplusplus
}
#endif

#endif
