#include <assert.h>

#include "libworker/nn/model.h"
#include "libworker/parallel/bucket.h"

int bucket_cut(const struct param *params, int n_params, size_t arena_count,
               const struct bucket_sizes *sizes, struct bucket *ret_buckets, int *ret_bucket_of)
{
    assert(n_params >= 1);
    int n = 0;
    size_t end = arena_count; /* of the bucket being filled */
    ret_buckets[0].params = 0;
    for (int i = n_params - 1; i >= 0; i--) {
        assert(params[i].offset < end || params[i].count == 0);
        struct bucket *bucket = &ret_buckets[n];
        ret_bucket_of[i] = n;
        bucket->params++;
        bucket->offset = i == 0 ? 0 : params[i].offset;
        bucket->count = end - bucket->offset;
        size_t limit = n == 0 ? sizes->first_bytes : sizes->bytes;
        if (i > 0 && bucket->count * sizeof(float) >= limit) {
            end = bucket->offset;
            ret_buckets[++n].params = 0;
        }
    }
    return n + 1;
}
