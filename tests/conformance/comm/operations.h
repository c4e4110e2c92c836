/* One case of the suite (a count, a type, a seed) and the operations beside the four basic ones,
 * each tried against what it should give. Test code, one at a time.
 */
#ifndef COMM_OPERATIONS_H
#define COMM_OPERATIONS_H

#include <worker/comm.h>

struct operations_case {
    struct wk_comm *comm;
    int rank, world;
    size_t count;
    enum wk_dtype dtype;
    enum wk_op op;
    uint64_t seed;
    char *in, *out; /* room for `world` rows each */
    uint64_t hash;  /* of all results: the same on any transport */
};

size_t operations_bytes(const struct operations_case *c, size_t count);

/* Is data[count] the reduction of everybody's elements from `first` on? */
int operations_reduced(const struct operations_case *c, const void *data, size_t first);

/* NULL, or what went wrong. */
const char *operations_try(struct operations_case *c);

#endif
