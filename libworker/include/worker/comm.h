/* Collectives between the ranks of one generation.
 *
 * Every rank calls the same operations in the same order. If a rank differs (operation, count,
 * type, reduction, root), all ranks fail with WK_EMISMATCH, and the sentence names both sides. Sums
 * are computed in rank order, so the bits depend only on the data and the world, not on timing or
 * the ranks' hosts. f16 and bf16 are summed in f32 and rounded once, to nearest even.
 *
 * Every wait ends: done, WK_EABORT, WK_EPEER (a rank died or left), WK_EMISMATCH, or WK_ETIMEOUT
 * (the sentence names the ranks that have not arrived). After any of these errors the communicator
 * stays failed with the first of them: close it and make one of the next generation. The buffers of
 * a failed operation have undefined content.
 *
 * Any thread may call; operations run one after the other in the order of the calls. With
 * `ret_work` NULL a call blocks and returns the operation's result. Otherwise it returns at once
 * (0, or an error and no work), and a progress thread runs the operation. The buffers belong to the
 * operation until wk_wait. Counts are elements and may be 0. Buffers must not overlap except where
 * stated.
 */
#ifndef WORKER_COMM_H
#define WORKER_COMM_H

#include <stdbool.h>

#include <worker/error.h>
#include <worker/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct wk_comm;
struct wk_work;

WK_API int wk_comm_rank(const struct wk_comm *comm);
WK_API int wk_comm_world(const struct wk_comm *comm);

/* The number of a rank's host: ranks of the same number are on the same host. -1: no such rank. */
WK_API int wk_comm_host(const struct wk_comm *comm, int rank);

/* buf[count] on every rank becomes the reduction over all ranks. */
WK_API int wk_all_reduce(struct wk_comm *comm, void *buf, size_t count, enum wk_dtype dtype,
                         enum wk_op op, struct wk_work **ret_work);

/* buf[count] on every rank becomes root's. */
WK_API int wk_broadcast(struct wk_comm *comm, void *buf, size_t count, enum wk_dtype dtype,
                        int root, struct wk_work **ret_work);

/* ret_out[world, count] = in[count] of each rank; `in` may be its own place within it. */
WK_API int wk_all_gather(struct wk_comm *comm, const void *in, void *ret_out, size_t count,
                         enum wk_dtype dtype, struct wk_work **ret_work);

/* ret_out[count] = the reduction of row `rank` of in[world, count], and may be that very row. */
WK_API int wk_reduce_scatter(struct wk_comm *comm, const void *in, void *ret_out, size_t count,
                             enum wk_dtype dtype, enum wk_op op, struct wk_work **ret_work);

/* Returns when every rank has called it. */
WK_API int wk_barrier(struct wk_comm *comm, struct wk_work **ret_work);

/* Buffers of the operations below. `count` is in elements, as described at each. */
struct wk_buffers {
    const void *in;
    void *out;
    size_t count;
    enum wk_dtype dtype;
};

/* root's out[count] = the reduction over all ranks' in[count]; other ranks' `out` is not touched.
 * `out` may be `in`. */
WK_API int wk_reduce(struct wk_comm *comm, const struct wk_buffers *buffers, enum wk_op op,
                     int root, struct wk_work **ret_work);

/* root's out[world, count] = in[count] of each rank; root's `in` may be its own row of `out`. */
WK_API int wk_gather(struct wk_comm *comm, const struct wk_buffers *buffers, int root,
                     struct wk_work **ret_work);

/* out[count] = row `rank` of root's in[world, count], and may be that very row at the root. */
WK_API int wk_scatter(struct wk_comm *comm, const struct wk_buffers *buffers, int root,
                      struct wk_work **ret_work);

/* Row p of out[world, count] = row `rank` of rank p's in[world, count]. */
WK_API int wk_all_to_all(struct wk_comm *comm, const struct wk_buffers *buffers,
                         struct wk_work **ret_work);

/* Rows of different lengths, in elements. in_counts[p] elements at in + in_offsets[p] go to rank p.
 * out_counts[p] elements from rank p arrive at out + out_offsets[p]. A receiver must expect exactly
 * what the sender sends (WK_EMISMATCH). The arrays are copied; rows of `in` may overlap. */
struct wk_rows {
    const void *in;
    const size_t *in_counts, *in_offsets; /* [world] */
    void *out;
    const size_t *out_counts, *out_offsets; /* [world] */
    enum wk_dtype dtype;
};
WK_API int wk_all_to_all_v(struct wk_comm *comm, const struct wk_rows *rows,
                           struct wk_work **ret_work);

/* out_counts[p] elements of rank p's `in` arrive at out + out_offsets[p] on every rank. in[] has
 * out_counts[rank] elements and may be its own place within `out`. All ranks pass the same
 * out_counts (WK_EMISMATCH); in_counts and in_offsets are ignored. */
WK_API int wk_all_gather_v(struct wk_comm *comm, const struct wk_rows *rows,
                           struct wk_work **ret_work);

/* out[in_counts[rank]] = the reduction of all ranks' in + in_offsets[rank]; it may be that very
 * row. All ranks pass the same in_counts (WK_EMISMATCH); out_counts and out_offsets are ignored. */
WK_API int wk_reduce_scatter_v(struct wk_comm *comm, const struct wk_rows *rows, enum wk_op op,
                               struct wk_work **ret_work);

/* Between two ranks; the others take no part. in[count] arrives as the peer's out[count]. Messages
 * of a pair are matched in order; count and type must agree. A rank runs one operation after the
 * other: to send both ways at once, use wk_send_recv. */
WK_API int wk_send(struct wk_comm *comm, const void *in, size_t count, enum wk_dtype dtype, int to,
                   struct wk_work **ret_work);
WK_API int wk_recv(struct wk_comm *comm, void *ret_out, size_t count, enum wk_dtype dtype, int from,
                   struct wk_work **ret_work);

/* in[count] to `to` and out[count] from `from`, neither waiting for the other. */
WK_API int wk_send_recv(struct wk_comm *comm, const struct wk_buffers *buffers, int to, int from,
                        struct wk_work **ret_work);

/* Extra work during a reduction, which saves passes over memory; floats only. `scale` multiplies
 * the results (0: unchanged). With `converts` results are stored as `out_dtype` (f32, f16 and bf16
 * into each other, rounded once).
 *
 * The sum of squares is over all ranks, in f64 and before that rounding. It and the non-finite flag
 * are the same on all ranks, with the same bits in the same world.
 */
struct wk_reduce_options {
    double scale;
    bool converts;
    enum wk_dtype out_dtype;
    double *ret_squares; /* NULL: not wanted; on every rank or on none */
    int *ret_nonfinite;  /* 0 or 1; NULL: not wanted; on every rank or on none */
};

/* out[count] on every rank = the finished reduction of in[count]; `out` may be `in` unless it
 * converts. */
WK_API int wk_all_reduce_with(struct wk_comm *comm, const struct wk_buffers *buffers, enum wk_op op,
                              const struct wk_reduce_options *options, struct wk_work **ret_work);

/* out[count] = the finished reduction of row `rank` of in[world, count]. */
WK_API int wk_reduce_scatter_with(struct wk_comm *comm, const struct wk_buffers *buffers,
                                  enum wk_op op, const struct wk_reduce_options *options,
                                  struct wk_work **ret_work);

/* Objects: bytes of a length that only their owner knows. Blocking. Results are malloced and the
 * caller frees them; NULL for no bytes. */
struct wk_bytes {
    void *data;
    size_t bytes;
};

/* `object` is input at root, where it stays unchanged, and output at the other ranks. */
WK_API int wk_broadcast_object(struct wk_comm *comm, struct wk_bytes *object, int root);

/* objects[world], one per rank. All data is in one allocation that begins at objects[0].data:
 * free(objects[0].data). */
WK_API int wk_all_gather_object(struct wk_comm *comm, const struct wk_bytes *own,
                                struct wk_bytes *ret_objects);

/* Rows of different lengths as one table *ret_table[world, *ret_longest], malloced. Shorter rows
 * are filled with copies of the element at `pad`. lengths[world], if not NULL, gets the true
 * lengths. */
struct wk_padded {
    void *table;
    size_t longest;
};
WK_API int wk_all_gather_padded(struct wk_comm *comm, const struct wk_buffers *row, const void *pad,
                                struct wk_padded *ret, size_t *lengths);

/* Memory that the ranks of a host read in place. If the buffers of an operation are in arenas on
 * every rank, two copies of four are saved. The content survives communicators. A freed arena lives
 * until the last communicator it was registered with is closed. */
struct wk_arena;
WK_API int wk_arena_new(size_t bytes, struct wk_arena **ret_arena);
WK_API void wk_arena_free(struct wk_arena *arena); /* NULL is fine */
WK_API void *wk_arena_data(const struct wk_arena *arena);
WK_API size_t wk_arena_bytes(const struct wk_arena *arena);

/* Register an arena with this communicator. Local and cheap; repeating it changes nothing. Groups
 * made later know it too. WK_ENOMEM beyond 64. Not while an operation runs. */
WK_API int wk_comm_register(struct wk_comm *comm, struct wk_arena *arena);

/* Make a group of this communicator's ranks: those with the same `color` (0 or more), ordered by
 * key, then rank. All ranks call; a negative color gets no group (NULL). The group has its own
 * sequence numbers and failures. Aborting or closing this communicator aborts the group. Close the
 * group first. `name` is for messages. Blocking. */
struct wk_split {
    const char *name;
    int color;
    int key;
};
WK_API int wk_comm_split(struct wk_comm *comm, const struct wk_split *split,
                         struct wk_comm **ret_group);

/* The group of ranks[n], in that order; every rank of `comm` calls with the same list. */
WK_API int wk_comm_subgroup(struct wk_comm *comm, const int *ranks, int n,
                            struct wk_comm **ret_group);

/* The group of ranks that differ from this one only in coordinate `axis` of a mesh sizes[axes]. The
 * last axis is the innermost: rank = (c[0] * sizes[1] + c[1]) * sizes[2] + ... */
struct wk_mesh {
    const int *sizes;
    int axes;
};
WK_API int wk_comm_axis(struct wk_comm *comm, const struct wk_mesh *mesh, int axis,
                        struct wk_comm **ret_group);

/* The present activity of the communicator, for an observer. Any thread, never blocks. */
struct wk_comm_status {
    char name[32];
    bool running;
    char operation[128]; /* "all_reduce #7 (sum of 1000 f32, 4000 bytes)": present or last */
    uint64_t sequence;
    uint64_t bytes;
    int64_t waiting_us; /* since it began to wait; 0 while data moves */
    int waiting_count;  /* ranks that it waits for */
    int waiting[16];    /* the first of them */
    int failure;        /* as wk_comm_error's code */
    int left;           /* ranks that left with a goodbye */
};
WK_API void wk_comm_status(struct wk_comm *comm, struct wk_comm_status *ret);

/* Counters per operation since the communicator was made. */
struct wk_comm_counter {
    const char *name;
    uint64_t calls;
    uint64_t bytes; /* of the operation's vector at this rank */
    double wait_s;  /* time waited for others, after the first few hundred looks */
};
enum { WK_COMM_COUNTERS = 16 };
struct wk_comm_statistics {
    int count;
    struct wk_comm_counter counters[WK_COMM_COUNTERS];
    uint64_t in_place; /* operations that read the peers' buffers directly */
};
WK_API void wk_comm_statistics(struct wk_comm *comm, struct wk_comm_statistics *ret);

/* Wait for an operation, free it, return its result. NULL returns 0. Works after wk_comm_close too.
 */
WK_API int wk_wait(struct wk_work *work);

/* Fail the communicator here and on every reachable rank: each waiting and later call returns
 * WK_EABORT within milliseconds. Any thread. Repeating it changes nothing; an earlier failure keeps
 * its code. */
WK_API void wk_comm_abort(struct wk_comm *comm);

/* Leave the group with a goodbye, and free. Queued work ends with WK_EABORT. No other thread may be
 * inside a call (abort first, then join). NULL is allowed. */
WK_API void wk_comm_close(struct wk_comm *comm);

/* The sentence of the last failure, or "". Valid until the next failing call or close. */
WK_API const char *wk_comm_error(struct wk_comm *comm);

/* Ranks known to have died, ascending: writes up to `max` of them and returns their number. It
 * looks again at every call, so it also finds ranks that died after the failure. */
WK_API int wk_comm_lost(struct wk_comm *comm, int *ranks, int max);

#ifdef __cplusplus
}
#endif

#endif
