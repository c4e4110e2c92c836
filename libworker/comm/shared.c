/* Operations of ranks that share a host, without sending: each rank reads the others' data in
 * place. S is the whole vector, N the ranks.
 *
 *     small      1 step    the data is in the posts; after one meeting each rank does all it needs
 *     in place   2 steps   buffers are in arenas; a second meeting keeps a rank from changing a
 *                          buffer that others still read. All-reduces above 1 KiB, other operations
 *                          above a post
 *     else       by_links.c, through the rings: copies in and out; 9 S bytes are read and written
 *                          for an all-reduce of two ranks
 */
#include "libworker/comm/shared.h"

#include <string.h>

#include "libworker/comm/board.h"
#include "libworker/comm/by_links.h"
#include "libworker/comm/operation.h"
#include "libworker/comm/state.h"
#include "libworker/comm/views.h"
#include "libworker/comm/wait.h"

/* Bytes moved between two checks for messages: tens of microseconds. */
enum { CHECK_BYTES = 1024 * 1024 };

/* Larger all-reduces are faster in place, because by post every rank would copy, fetch and add each
 * element; measured (docs/collectives.md). */
enum { REDUCED_BY_POST_BYTES = 1024 };

static void sum_views(struct wk_comm *comm, const struct views *views, size_t offset)
{
    for (int p = 0; p < comm->world; p++)
        comm->sources[p] = views->in[p] + offset;
}

/* Each rank sums everything. 1 step; sums N S per rank. */
static void all_reduce_small(struct wk_comm *comm, const struct request *rq,
                             const struct views *views)
{
    struct share shares[COMM_WORLD_MAX];
    size_t size = wk_dtype_bytes(rq->dtype), out_size = request_out_size(rq);
    if (!request_tallies(rq)) {
        struct reduction reduction = operation_reduction(comm, rq, NULL);
        sum_views(comm, views, 0);
        reduce(&reduction, comm->sources, rq->out, rq->count);
        return;
    }
    for (int p = 0; p < comm->world; p++) {
        struct tally tally = {.at = 0};
        struct slice slice = slice_of(rq->count, comm->world, p);
        struct reduction reduction = operation_reduction(comm, rq, &tally);
        sum_views(comm, views, slice.first * size);
        reduce(&reduction, comm->sources, (char *)rq->out + slice.first * out_size, slice.count);
        shares[p] = (struct share){tally_squares(&tally), tally.nonfinite};
    }
    request_store_tally(rq, shares, comm->world);
}

/* Each rank sums its slice of all buffers and writes it into all of them, block by block, so that
 * the copies are read from the cache. 2 steps; moves 2 N S: with two ranks 4 S. */
static int all_reduce_in_place(struct wk_comm *comm, const struct request *rq,
                               const struct views *views, struct tally *tally)
{
    size_t size = wk_dtype_bytes(rq->dtype), out_size = request_out_size(rq);
    struct slice slice = slice_of(rq->count, comm->world, comm->rank);
    struct reduction reduction = operation_reduction(comm, rq, tally);
    int next = (comm->rank + 1) % comm->world, rc = 0;
    size_t block = comm->world == 2 ? CHECK_BYTES / size : REDUCE_BLOCK; /* two ranks copy nothing
                                                                           */
    for (size_t done = 0; done < slice.count && !rc; done += block) {
        size_t n = slice.count - done < block ? slice.count - done : block;
        size_t at = slice.first + done;
        char *own = (char *)rq->out + at * out_size;
        sum_views(comm, views, at * size);
        reduce_to_both(&reduction, comm->sources, own, views->out[next] + at * out_size, n);
        for (int p = 0; p < comm->world; p++)
            if (p != comm->rank && p != next)
                memcpy(views->out[p] + at * out_size, own, n * out_size);
        rc = wait_check_alert(comm);
    }
    return rc;
}

static int copy_bytes(struct wk_comm *comm, char *to, const char *from, size_t bytes)
{
    int rc = 0;
    for (size_t done = 0; to != from && done < bytes && !rc; done += CHECK_BYTES) {
        size_t n = bytes - done < CHECK_BYTES ? bytes - done : CHECK_BYTES;
        memcpy(to + done, from + done, n);
        rc = wait_check_alert(comm);
    }
    return rc;
}

/* The sum of all ranks' elements from `first` bytes on, only for this rank. */
static int sum_for_self(struct wk_comm *comm, const struct request *rq, const struct views *views,
                        size_t first, struct tally *tally)
{
    size_t size = wk_dtype_bytes(rq->dtype), block = CHECK_BYTES / size;
    struct reduction reduction = operation_reduction(comm, rq, tally);
    int rc = 0;
    for (size_t done = 0; done < rq->count && !rc; done += block) {
        size_t n = rq->count - done < block ? rq->count - done : block;
        sum_views(comm, views, first + done * size);
        reduce(&reduction, comm->sources, (char *)rq->out + done * request_out_size(rq), n);
        rc = wait_check_alert(comm);
    }
    return rc;
}

/* Copy or sum this rank's result from the others' data; never writes to another's. Besides reading
 * the operands, it reads and writes each received byte once. */
static int copy_or_sum_own(struct wk_comm *comm, const struct request *rq,
                           const struct views *views, struct tally *tally)
{
    size_t bytes = rq->count * wk_dtype_bytes(rq->dtype), rank = (size_t)comm->rank;
    bool root = comm->rank == rq->root;
    char *out = rq->out;
    int rc = 0;
    if (rq->kind == KIND_REDUCE_SCATTER || (rq->kind == KIND_REDUCE && root))
        return sum_for_self(comm, rq, views, rq->kind == KIND_REDUCE ? 0 : rank * bytes, tally);
    if (rq->kind == KIND_BROADCAST)
        return copy_bytes(comm, out, views->in[rq->root], bytes);
    if (rq->kind == KIND_SCATTER)
        return copy_bytes(comm, out, views->in[rq->root] + rank * bytes, bytes);
    if (rq->kind == KIND_REDUCE || (rq->kind == KIND_GATHER && !root))
        return 0;
    size_t row = rq->kind == KIND_ALL_TO_ALL ? rank * bytes : 0;
    for (int i = 0; i < comm->world && !rc; i++) {
        size_t p = (rank + (size_t)i) % (size_t)comm->world;
        rc = copy_bytes(comm, out + p * bytes, views->in[p] + row, bytes);
    }
    return rc;
}

/* True if others need this rank's data. */
static bool others_need_data(const struct wk_comm *comm, const struct request *rq)
{
    bool from_root = rq->kind == KIND_BROADCAST || rq->kind == KIND_SCATTER;
    return rq->kind != KIND_BARRIER && (!from_root || comm->rank == rq->root);
}

/* The sum of rows is known only to their owner, so the tallies are exchanged by post. */
static int exchange_tallies(struct wk_comm *comm, const struct request *rq,
                            const struct tally *tally)
{
    struct share shares[COMM_WORLD_MAX];
    struct share own = {tally_squares(tally), tally->nonfinite};
    struct request exchange = {.kind = KIND_ALL_GATHER, .dtype = WK_U8, .count = sizeof(own)};
    operation_header(comm, &exchange);
    board_post(comm, &own, sizeof(own));
    int rc = board_gather(comm);
    if (rc)
        return rc;
    for (int p = 0; p < comm->world; p++)
        memcpy(&shares[p], board_post_of(comm, p)->data, sizeof(shares[p]));
    request_store_tally(rq, shares, comm->world);
    return 0;
}

/* The same for one vector of two ranks, on a short path, because only latency matters here. */
static bool sum_pair(struct wk_comm *comm, const struct request *rq)
{
    if (comm->world != 2 || rq->kind != KIND_ALL_REDUCE || rq->finishes)
        return false;
    struct reduction reduction = {
        .dtype = rq->dtype, .op = rq->op, .sources = 2, .scratch = comm->scratch};
    const void *sources[2];
    sources[comm->rank] = rq->in;
    sources[1 - comm->rank] = board_post_of(comm, 1 - comm->rank)->data;
    reduce(&reduction, sources, rq->out, rq->count);
    return true;
}

static int run_rows(struct wk_comm *comm, const struct request *rq)
{
    struct views views;
    struct tally tally = {.at = 0};
    for (int p = 0; p < comm->world; p++)
        views.in[p] = p == comm->rank ? rq->in : board_post_of(comm, p)->data;
    int rc = 0;
    if (rq->kind == KIND_ALL_REDUCE)
        all_reduce_small(comm, rq, &views);
    else
        rc = copy_or_sum_own(comm, rq, &views, &tally);
    bool tells = rq->kind == KIND_REDUCE_SCATTER && request_tallies(rq);
    return !rc && tells ? exchange_tallies(comm, rq, &tally) : rc;
}

static int run_small(struct wk_comm *comm, const struct request *rq)
{
    comm->header.place = 0;
    board_post(comm, rq->in, others_need_data(comm, rq) ? request_in_bytes(rq, comm->world) : 0);
    int rc = board_gather(comm);
    if (rc || rq->kind == KIND_BARRIER || sum_pair(comm, rq))
        return rc;
    return run_rows(comm, rq);
}

/* True if the data of all ranks can be read in place. The same answer on every rank. */
static bool all_in_place(struct wk_comm *comm, const struct request *rq)
{
    for (int p = 0; p < comm->world; p++) {
        struct header header;
        memcpy(&header, board_post_of(comm, p)->header, sizeof(header));
        bool from_root = rq->kind == KIND_BROADCAST || rq->kind == KIND_SCATTER;
        bool to_root = rq->kind == KIND_GATHER || rq->kind == KIND_REDUCE;
        bool read = from_root ? p == rq->root : !to_root || p != rq->root;
        if (read && !(header.place & PLACE_IN))
            return false;
        if (rq->kind == KIND_ALL_REDUCE && !(header.place & PLACE_OUT))
            return false;
    }
    return true;
}

static int run_in_place(struct wk_comm *comm, const struct request *rq)
{
    struct views views;
    struct tally tally = {.at = 0};
    int rc = views_map(comm, rq, &views);
    if (rc)
        return rc;
    atomic_fetch_add_explicit(&comm->in_place, 1, memory_order_relaxed);
    rc = rq->kind == KIND_ALL_REDUCE ? all_reduce_in_place(comm, rq, &views, &tally)
                                     : copy_or_sum_own(comm, rq, &views, &tally);
    if (rc)
        return rc;
    struct share own = {tally_squares(&tally), tally.nonfinite};
    rc = board_finish(comm, &own);
    if (rc || !request_tallies(rq))
        return rc;
    struct share shares[COMM_WORLD_MAX];
    for (int p = 0; p < comm->world; p++) {
        const struct done *done =
            p == comm->rank ? &comm->segment.head->done : &comm->peers[p].head->done;
        shares[p] = (struct share){done->squares, done->nonfinite};
    }
    request_store_tally(rq, shares, comm->world);
    return 0;
}

/* Number of ranks with a post of addresses instead of data. */
static int count_addresses(const struct wk_comm *comm)
{
    int n = 0;
    for (int p = 0; p < comm->world; p++) {
        struct header header;
        memcpy(&header, board_post_of(comm, p)->header, sizeof(header));
        if (header.place == (PLACE_IN | PLACE_OUT))
            n++;
    }
    return n;
}

/* An all-reduce that fits a post and is better done in place. Each rank posts the addresses of its
 * buffers, or without arenas their content. If ranks differ in that, all post content. With more
 * ranks than cores a second meeting costs more than it saves. */
static int run_either(struct wk_comm *comm, const struct request *rq)
{
    struct located located;
    int rc = views_locate(comm, rq, &located);
    if (rc)
        return rc;
    if (comm->spin_us == 0 || comm->header.place != (PLACE_IN | PLACE_OUT))
        comm->header.place = 0;
    if (comm->header.place)
        board_post(comm, &located, sizeof(located));
    else
        board_post(comm, rq->in, request_in_bytes(rq, comm->world));
    rc = board_gather(comm);
    if (rc)
        return rc;
    int n = count_addresses(comm);
    if (n == comm->world)
        return run_in_place(comm, rq);
    if (n > 0)
        return run_small(comm, rq);
    return sum_pair(comm, rq) ? 0 : run_rows(comm, rq);
}

int shared_run(struct wk_comm *comm, const struct request *rq)
{
    size_t most = request_bytes(rq, comm->world);
    if (most <= POST_TAIL_BYTES + POST_MORE_BYTES)
        return rq->kind == KIND_ALL_REDUCE && most > REDUCED_BY_POST_BYTES ? run_either(comm, rq)
                                                                           : run_small(comm, rq);
    struct located located;
    int rc = views_locate(comm, rq, &located);
    if (rc)
        return rc;
    board_post(comm, &located, sizeof(located));
    rc = board_gather(comm);
    if (rc)
        return rc;
    return all_in_place(comm, rq) ? run_in_place(comm, rq) : by_links_run(comm, rq);
}
