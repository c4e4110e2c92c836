/* Memory that is handed out, and taken away again. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <worker/error.h>

#include "libworker/comm/arena.h"
#include "libworker/comm/comm.h"

static size_t mapped_bytes(void)
{
    size_t pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    cr_assert(file && fscanf(file, "%zu", &pages) == 1);
    fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

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

/* A third of it more is all that may be mapped, and half of its memory is a second copy's. */
Test(arena, it_is_revoked_without_room_for_a_second_one)
{
    enum { BYTES = 192 << 20 };
    struct wk_arena *arena;
    struct rlimit space;
    size_t bytes;
    cr_assert_eq(wk_arena_new(BYTES, &arena), 0);
    char *ours = wk_arena_data(arena);
    for (size_t at = 0; at < BYTES; at += 4096)
        ours[at] = (char)(at >> 12);
    char *theirs = arena_map(arena->memory_fd, &bytes);
    struct stat old;
    int old_fd = dup(arena->memory_fd);
    cr_assert_eq(getrlimit(RLIMIT_AS, &space), 0);
    space.rlim_cur = mapped_bytes() + BYTES / 3;
    cr_assert_eq(setrlimit(RLIMIT_AS, &space), 0);
    cr_assert_eq(arena_revoke(arena), 0);
    memset(theirs, 'x', 100);
    for (size_t at = 0; at < BYTES; at += 4096)
        cr_assert(ours[at] == (char)(at >> 12), "at %zu", at);
    cr_assert(fstat(old_fd, &old) == 0 && old.st_blocks * 512 < BYTES / 2);
    char *again = arena_map(arena->memory_fd, &bytes);
    cr_assert_null(again, "the limit holds");
    close(old_fd);
    munmap(theirs, BYTES);
    wk_arena_free(arena);
}

/* Whoever has the old memory could still write to it, so nobody may count on it any more. */
Test(arena, one_that_cannot_be_revoked_is_refused_from_then_on)
{
    struct comm_options options = {.rank = 0, .world = 1};
    struct wk_comm *comm;
    struct wk_arena *arena;
    struct rlimit files;
    cr_assert_eq(comm_connect(NULL, &options, &comm, NULL), 0);
    cr_assert_eq(wk_arena_new(4096, &arena), 0);
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &files), 0);
    rlim_t most = files.rlim_cur;
    files.rlim_cur = 0;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &files), 0);
    ((char *)wk_arena_data(arena))[7] = 3;
    cr_assert_eq(arena_revoke(arena), WK_ENOMEM);
    files.rlim_cur = most;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &files), 0);
    cr_assert_eq(((char *)wk_arena_data(arena))[7], 3);
    cr_assert_eq(wk_comm_register(comm, arena), WK_ENOMEM);
    cr_assert(strstr(wk_comm_error(comm), "a rank that was lost may still write to"), "%s",
              wk_comm_error(comm));
    wk_comm_close(comm);
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
