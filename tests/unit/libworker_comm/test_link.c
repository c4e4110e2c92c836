/* A peer of this host whose shared memory says what cannot be. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "libworker/comm/link_shm.h"

enum { WORLD = 2, RING_BYTES = 1 << 20 };

struct pair {
    struct segment own, theirs;
    int bell_fd;
    struct link *link;
};

static void pair_init(struct pair *pair)
{
    cr_assert_eq(segment_new(&pair->own, WORLD, NULL), 0);
    cr_assert_eq(segment_new(&pair->theirs, WORLD, NULL), 0);
    pair->bell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct link_shm_options options = {0, 1, WORLD, &pair->own, {-1, pair->bell_fd, -1}};
    options.handles.memory_fd = pair->theirs.memory_fd;
    cr_assert_eq(link_shm_new(&options, &pair->link, NULL), 0);
}

static void pair_fini(struct pair *pair)
{
    segment_fini(&pair->own);
    segment_fini(&pair->theirs);
    close(pair->bell_fd);
}

static int mappings(void)
{
    int lines = 0;
    FILE *file = fopen("/proc/self/maps", "re");
    cr_assert_not_null(file);
    for (int c; (c = getc(file)) != EOF;)
        lines += c == '\n';
    fclose(file);
    return lines;
}

/* Room that is not there would be written to, behind the ring. */
Test(link, a_ring_read_further_than_it_was_written_has_no_room)
{
    static const uint64_t wrong[] = {RING_BYTES + 1, UINT64_C(1) << 40, UINT64_MAX};
    static char data[4 * RING_BYTES];
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct pair pair;
        struct iovec part = {data, sizeof(data)};
        pair_init(&pair);
        cr_assert_eq(link_send(pair.link, &part, 1), RING_BYTES);
        cr_assert_eq(link_send(pair.link, &part, 1), 0);
        atomic_store(&pair.theirs.head->rings[0].tail, RING_BYTES / 2);
        part.iov_len = RING_BYTES / 4;
        cr_assert_eq(link_send(pair.link, &part, 1), RING_BYTES / 4);
        part.iov_len = sizeof(data);
        atomic_store(&pair.theirs.head->rings[0].tail, wrong[i] + RING_BYTES / 4);
        cr_assert_eq(link_send(pair.link, &part, 1), -1, "tail %zu", (size_t)wrong[i]);
        link_free(pair.link);
        pair_fini(&pair);
    }
}

Test(link, a_ring_ends_as_large_as_it_began)
{
    struct pair pair;
    int before = mappings();
    pair_init(&pair);
    pair.theirs.head->ring_bytes = pair.own.head->ring_bytes = 4096;
    link_free(pair.link);
    pair_fini(&pair);
    cr_assert_eq(mappings(), before);
}
