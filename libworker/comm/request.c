#include "libworker/comm/request.h"

enum { SLICE_ELEMENTS = 64 }; /* slices are whole cache lines, whatever the type */

struct slice slice_of(size_t count, int parts, int part)
{
    size_t n = (size_t)parts, p = (size_t)part;
    size_t each =
        ((count + n - 1) / n + SLICE_ELEMENTS - 1) / SLICE_ELEMENTS * (size_t)SLICE_ELEMENTS;
    size_t first = each * p < count ? each * p : count;
    return (struct slice){first, count - first < each ? count - first : each};
}

void request_store_tally(const struct request *rq, const struct share *shares, int count)
{
    double squares = 0;
    int nonfinite = 0;
    for (int i = 0; i < count; i++) {
        squares += shares[i].squares;
        nonfinite |= shares[i].nonfinite != 0;
    }
    if (rq->finish.ret_squares)
        *rq->finish.ret_squares = squares;
    if (rq->finish.ret_nonfinite)
        *rq->finish.ret_nonfinite = nonfinite;
}
