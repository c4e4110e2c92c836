/* Memory that is handed out, and taken away again. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <worker/error.h>

#include "libworker/comm/arena.h"

Test(arena, a_peer_sees_what_is_written_until_it_is_revoked)
{
    enum { BYTES = 3 << 20 };
    struct wk_arena *arena;
    size_t bytes;
    cr_assert_eq(wk_arena_new(BYTES, &arena), 0);
    char *ours = wk_arena_data(arena);
    char *theirs = arena_map(arena->memory_fd, &bytes);
    cr_assert(theirs && bytes == BYTES && theirs != ours);
    ours[5] = 1;
    theirs[BYTES - 1] = 2;
    cr_assert(theirs[5] == 1 && ours[BYTES - 1] == 2);
    cr_assert_eq(arena_revoke(arena), 0);
    cr_assert(wk_arena_data(arena) == ours && ours[5] == 1 && ours[BYTES - 1] == 2);
    theirs[5] = 9;
    cr_assert_eq(ours[5], 1);
    munmap(theirs, bytes);
    wk_arena_free(arena);
}

Test(arena, memory_that_could_shrink_is_not_mapped)
{
    size_t bytes;
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    cr_assert_eq(ftruncate(fd, 4096), 0);
    cr_assert_null(arena_map(fd, &bytes));
    cr_assert_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
    char *data = arena_map(fd, &bytes);
    cr_assert_not_null(data);
    munmap(data, bytes);
    close(fd);
    cr_assert_null(arena_map(-1, &bytes));
}

Test(arena, it_lives_as_long_as_somebody_holds_it)
{
    struct wk_arena *arena;
    cr_assert_eq(wk_arena_new(0, &arena), WK_EINVAL);
    cr_assert_eq(wk_arena_new(100, &arena), 0);
    cr_assert_geq(wk_arena_bytes(arena), 100);
    arena_hold(arena);
    wk_arena_free(arena);
    memset(wk_arena_data(arena), 1, 100);
    arena_release(arena);
    wk_arena_free(NULL);
}
