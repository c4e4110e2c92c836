#include "common/env/rng_os.h"

#include <errno.h>
#include <sys/random.h>

#include "common/base/assert.h"

static void fill_random(void *self, void *ret_bytes, size_t count)
{
    char *out = ret_bytes;
    (void)self;
    while (count) {
        ssize_t got = getrandom(out, count, 0);
        insist(got > 0 || errno == EINTR);
        if (got > 0) {
            out += got;
            count -= (size_t)got;
        }
    }
}

struct rng_source rng_os(void)
{
    return (struct rng_source){.fill = fill_random};
}
