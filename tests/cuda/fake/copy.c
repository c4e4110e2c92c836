/* Copies. Of those from and to pinned memory the host's side is watched until it has waited. */
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "libworker/device/rehearsal/fiber.h"
#include "tests/cuda/fake/stream.h"

struct copy {
    struct copy *next;
    void *to;
    const void *from;
    size_t bytes;
    void *staged;   /* what was in host memory that is not pinned */
    void *expected; /* of a pinned source: what it was, or NULL where work was still to write it */
    bool watches_target, watches_source, has_run;
    int slot;
    uint64_t at; /* of its stream */
};

static struct copy *watched;

static bool overlaps(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
    return a < b + b_bytes && b < a + a_bytes;
}

static bool is_watched(const void *at, size_t bytes, bool as_target)
{
    for (const struct copy *copy = watched; copy; copy = copy->next) {
        const void *own = as_target ? copy->to : copy->from;
        bool watches = as_target ? copy->watches_target : copy->watches_source && !copy->has_run;
        if (watches && overlaps(own, copy->bytes, at, bytes))
            return true;
    }
    return false;
}

static void poison_targets(void)
{
    fiber_hide_begin(); /* the list is the runtime's own, whoever asks */
    for (const struct copy *copy = watched; copy; copy = copy->next) {
        if (copy->watches_target)
            FAKE_POISON(copy->to, copy->bytes);
    }
    fiber_hide_end();
}

static void run_copy(void *arg)
{
    struct copy *copy = arg;
    const void *from = copy->staged ? copy->staged : copy->from;
    if (copy->watches_target)
        FAKE_UNPOISON(copy->to, copy->bytes);
    if (copy->watches_source) /* it may be the target of an earlier one */
        FAKE_UNPOISON(copy->from, copy->bytes);
    if (copy->expected && memcmp(copy->expected, from, copy->bytes) != 0)
        fake_found("the source of a copy, %p, was written before the copy ran", copy->from);
    memcpy(copy->to, from, copy->bytes);
    poison_targets();
}

static void copy_free(struct copy *copy)
{
    free(copy->staged);
    free(copy->expected);
    free(copy);
}

static void drop_copy(void *arg)
{
    struct copy *copy = arg;
    copy->has_run = true;
    if (!copy->watches_target && !copy->watches_source)
        copy_free(copy);
}

static void *kept(const void *from, size_t bytes)
{
    void *copy = malloc(bytes);
    insist(copy);
    memcpy(copy, from, bytes);
    return copy;
}

/* The host's sides of a copy as it is enqueued. */
static void watch(struct copy *copy)
{
    if (fake_is_pinned(copy->to, copy->bytes)) {
        copy->watches_target = true;
        if (!is_watched(copy->to, copy->bytes, false) && !is_watched(copy->to, copy->bytes, true)) {
            fiber_hide_begin(); /* an earlier copy from there has run, though nobody may know it */
            memset(copy->to, 0xa5, copy->bytes);
            fiber_hide_end();
        }
        FAKE_POISON(copy->to, copy->bytes);
    }
    if (fake_is_pinned(copy->from, copy->bytes)) {
        copy->watches_source = true;
        if (!is_watched(copy->from, copy->bytes, true))
            copy->expected = kept(copy->from, copy->bytes);
    } else if (!fake_is_device(copy->from, copy->bytes)) {
        copy->staged = kept(copy->from, copy->bytes);
    }
}

void fake_copy(cudaStream_t stream, void *to, const void *from, size_t bytes)
{
    struct copy *copy = calloc(1, sizeof(*copy));
    insist(copy);
    *copy = (struct copy){.to = to, .from = from, .bytes = bytes};
    watch(copy);
    const struct fake_work work = {"copy", run_copy, drop_copy, copy};
    stream_add(stream, &work);
    copy->slot = stream->slot;
    copy->at = stream->clock.at[stream->slot];
    if (!copy->watches_target && !copy->watches_source)
        return;
    copy->next = watched;
    watched = copy;
}

void fake_copies_known(const struct fake_clock *host)
{
    for (struct copy **at = &watched; *at;) {
        struct copy *copy = *at;
        if (host->at[copy->slot] < copy->at) {
            at = &copy->next;
            continue;
        }
        *at = copy->next;
        if (copy->watches_target)
            FAKE_UNPOISON(copy->to, copy->bytes);
        copy_free(copy);
    }
    poison_targets(); /* also what another, done, had */
}
