/* Collectives between the ranks of one generation.
 *
 * Every rank calls the same operations in the same order; a rank that differs (operation, count,
 * type, reduction, root) makes all of them fail with WK_EMISMATCH and both sides named. Sums are
 * taken in rank order, so the bits depend on the data and the world only: not on timing, not on
 * where the ranks live. f16 and bf16 are summed in f32 and rounded once, to nearest even.
 *
 * Every wait ends: done, WK_EABORT, WK_EPEER (a rank died or left), WK_ETIMEOUT (the sentence names
 * who has not arrived), WK_EMISMATCH. After any of those the communicator stays failed with the
 * first of them: close it and make one of the next generation. What the buffers of a failed
 * operation hold is undefined.
 *
 * Any thread may call; operations run one after the other in the order of the calls. With
 * `ret_work` NULL a call blocks and returns the operation's result. Otherwise it returns at once
 * (0, or an error and no work), a progress thread does the operation, and the buffers belong to it
 * until wk_wait. Counts are elements; 0 is fine. Buffers must not overlap unless said so.
 */
#ifndef WORKER_COMM_H
#define WORKER_COMM_H

#include <worker/error.h>
#include <worker/types.h>

struct wk_comm;
struct wk_work;

WK_API int wk_comm_rank(const struct wk_comm *comm);
WK_API int wk_comm_world(const struct wk_comm *comm);

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

/* Wait for an operation, free it, return its result. NULL is 0. Works after wk_comm_close too. */
WK_API int wk_wait(struct wk_work *work);

/* Fail the communicator here and, as far as they can be told, on every other rank: each waiting and
 * later call returns WK_EABORT within milliseconds. Any thread; repeating it changes nothing; an
 * earlier failure keeps its own code. */
WK_API void wk_comm_abort(struct wk_comm *comm);

/* Tells the others goodbye and frees. Work still queued ends with WK_EABORT. No other thread may be
 * inside a call (abort first, then join). NULL is fine. */
WK_API void wk_comm_close(struct wk_comm *comm);

/* The sentence of the last failure, "" if none. Valid until the next failing call or close. */
WK_API const char *wk_comm_error(struct wk_comm *comm);

/* Ranks known to have died, ascending: writes up to `max` of them, returns how many there are.
 * Looks again at every call, so ranks that die after the failure are found too. */
WK_API int wk_comm_lost(struct wk_comm *comm, int *ranks, int max);

#endif
