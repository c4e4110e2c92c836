#include <assert.h>

#include "libworker/data/split.h"

void split_share(int64_t total, int rank, int world, int64_t *ret_first, int64_t *ret_count)
{
    assert(total >= 0 && rank >= 0 && rank < world);
    int64_t each = total / world, more = total % world;
    *ret_count = each + (rank < more);
    *ret_first = each * rank + (rank < more ? rank : more);
}
