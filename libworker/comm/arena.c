#include "libworker/comm/arena.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <worker/error.h>

enum {
    ARENA_ALIGN_BYTES = 2 * 1024 * 1024, /* a huge page */
    PIECE_BYTES = 32 * 1024 * 1024,      /* present twice while it is replaced */
    SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL,
};

static int memory_new(size_t bytes)
{
    int fd = memfd_create("muster-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd >= 0 && (ftruncate(fd, (off_t)bytes) != 0 || fcntl(fd, F_ADD_SEALS, SEALS) != 0)) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Map at an address that allows huge pages; a plain mapping may not. */
static char *map_aligned(int fd, size_t bytes)
{
    size_t room = bytes + ARENA_ALIGN_BYTES;
    char *space = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (space == MAP_FAILED)
        return NULL;
    size_t skip = (ARENA_ALIGN_BYTES - (uintptr_t)space % ARENA_ALIGN_BYTES) % ARENA_ALIGN_BYTES;
    char *data = mmap(space + skip, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
    if (data == MAP_FAILED) {
        munmap(space, room);
        return NULL;
    }
    if (skip > 0)
        munmap(space, skip);
    munmap(data + bytes, room - skip - bytes);
    /* Only advice: not every kernel grants it. */
    (void)madvise(data, bytes, MADV_HUGEPAGE);
    return data;
}

static int refuse_arena(int code, size_t bytes, struct wk_arena **ret_arena)
{
    struct error err = {0};
    (void)error_set(
        &err, code,
        code == WK_EINVAL ? "an arena of %zu bytes" : "no memory for an arena of %zu bytes", bytes);
    *ret_arena = NULL;
    return error_keep(&err);
}

int wk_arena_new(size_t bytes, struct wk_arena **ret_arena)
{
    if (bytes == 0 || bytes > PTRDIFF_MAX - 2 * (size_t)ARENA_ALIGN_BYTES)
        return refuse_arena(WK_EINVAL, bytes, ret_arena);
    struct wk_arena *arena = calloc(1, sizeof(*arena));
    if (!arena)
        return refuse_arena(WK_ENOMEM, bytes, ret_arena);
    arena->bytes = bytes;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t whole = (bytes + page - 1) / page * page;
    arena->bytes = whole;
    arena->memory_fd = memory_new(whole);
    arena->data = arena->memory_fd >= 0 ? map_aligned(arena->memory_fd, whole) : NULL;
    if (!arena->data) {
        if (arena->memory_fd >= 0)
            close(arena->memory_fd);
        free(arena);
        return refuse_arena(WK_ENOMEM, bytes, ret_arena);
    }
    atomic_store(&arena->holders, 1);
    *ret_arena = arena;
    return 0;
}

struct wk_arena *arena_hold(struct wk_arena *arena)
{
    atomic_fetch_add(&arena->holders, 1);
    return arena;
}

void arena_release(struct wk_arena *arena)
{
    if (!arena || atomic_fetch_sub(&arena->holders, 1) > 1)
        return;
    munmap(arena->data, arena->bytes);
    close(arena->memory_fd);
    free(arena);
}

void wk_arena_free(struct wk_arena *arena)
{
    arena_release(arena);
}

void *wk_arena_data(const struct wk_arena *arena)
{
    return arena->data;
}

size_t wk_arena_bytes(const struct wk_arena *arena)
{
    return arena->bytes;
}

/* Copy only pages in memory: an arena may be mostly holes, and unwritten parts must stay holes. */
static bool copy_present(const struct wk_arena *arena, int to_fd, off_t from, off_t end)
{
    while (from < end && (from = lseek(arena->memory_fd, from, SEEK_DATA)) >= 0 && from < end) {
        off_t hole = lseek(arena->memory_fd, from, SEEK_HOLE);
        hole = hole < 0 || hole > end ? end : hole;
        while (from < hole) {
            ssize_t n = pwrite(to_fd, arena->data + from, (size_t)(hole - from), from);
            if (n <= 0)
                return false;
            from += n;
        }
    }
    return true;
}

static bool replace_piece(const struct wk_arena *arena, int by_fd, off_t from, off_t end)
{
    size_t bytes = (size_t)(end - from);
    char *at = arena->data + from;
    if (!copy_present(arena, by_fd, from, end) ||
        mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, by_fd, from) == MAP_FAILED)
        return false;
    (void)madvise(at, bytes, MADV_HUGEPAGE);
    (void)fallocate(arena->memory_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, from,
                    (off_t)bytes);
    return true;
}

int arena_revoke(struct wk_arena *arena)
{
    int fd = memory_new(arena->bytes);
    off_t end = (off_t)arena->bytes;
    bool ok = fd >= 0;
    for (off_t at = 0; ok && at < end; at += PIECE_BYTES)
        ok = replace_piece(arena, fd, at, end - at < PIECE_BYTES ? end : at + PIECE_BYTES);
    if (ok) {
        close(arena->memory_fd);
        arena->memory_fd = fd;
    } else if (fd >= 0) {
        close(fd); /* pieces of it may be mapped */
    }
    if (!ok)
        atomic_store(&arena->exposed, true);
    atomic_fetch_add(&arena->version, 1);
    return ok ? 0 : WK_ENOMEM;
}

char *arena_map(int memory_fd, size_t *ret_bytes)
{
    struct stat st;
    /* Without the seals a peer could shrink it under us, and touching it would be a SIGBUS. */
    int seals = fcntl(memory_fd, F_GET_SEALS);
    if (seals < 0 || (seals & SEALS) != SEALS || fstat(memory_fd, &st) != 0 || st.st_size <= 0)
        return NULL;
    *ret_bytes = (size_t)st.st_size;
    return map_aligned(memory_fd, *ret_bytes);
}
