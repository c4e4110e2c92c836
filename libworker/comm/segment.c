#include "libworker/comm/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <worker/error.h>

#define SEGMENT_MAGIC UINT64_C(0x31676573726d6b77)

enum {
    PAGE_BYTES = 65536, /* any page size in use divides it */
    /* Large enough that a rank that briefly loses its core does not stop the other; all rings of a
     * host together small enough for its cache. */
    RING_BYTES_FEW = 1024 * 1024,
    RING_BYTES_SOME = 256 * 1024,
    RING_BYTES_MANY = 64 * 1024,
    FEW_RANKS = 4,
    SOME_RANKS = 8,
    SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL,
};

static size_t head_bytes(int world)
{
    size_t bytes = sizeof(struct segment_head) + (size_t)world * sizeof(struct ring_ends);
    return (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

static uint32_t ring_bytes(int world)
{
    if (world <= FEW_RANKS)
        return RING_BYTES_FEW;
    return world <= SOME_RANKS ? RING_BYTES_SOME : RING_BYTES_MANY;
}

size_t segment_bytes(int world)
{
    return head_bytes(world) + (size_t)world * ring_bytes(world);
}

static int map_head(struct segment *segment, int memory_fd, int world, struct error *err)
{
    size_t bytes = head_bytes(world);
    void *head = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory_fd, 0);
    if (head == MAP_FAILED)
        return error_set(err, WK_ENOMEM, "cannot map %zu bytes of shared memory", bytes);
    segment->head = head;
    segment->head_bytes = bytes;
    segment->ring_bytes = ring_bytes(world);
    return 0;
}

int segment_new(struct segment *segment, int world, struct error *err)
{
    *segment = (struct segment){.memory_fd = -1};
    int fd = memfd_create("muster-comm", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return error_set(err, WK_ENOMEM, "cannot make a memfd");
    int rc = 0;
    if (ftruncate(fd, (off_t)segment_bytes(world)) != 0 || fcntl(fd, F_ADD_SEALS, SEALS) != 0)
        rc = error_set(err, WK_ENOMEM, "cannot size a memfd to %zu bytes", segment_bytes(world));
    if (!rc)
        rc = map_head(segment, fd, world, err);
    if (rc) {
        close(fd);
        return rc;
    }
    segment->memory_fd = fd;
    segment->head->magic = SEGMENT_MAGIC;
    segment->head->world = (uint32_t)world;
    segment->head->ring_bytes = ring_bytes(world);
    return 0;
}

int segment_attach(struct segment *segment, int memory_fd, int world, struct error *err)
{
    *segment = (struct segment){.memory_fd = -1};
    struct stat st;
    /* Without the seals a peer could shrink it, and an access would be a SIGBUS. */
    int seals = fcntl(memory_fd, F_GET_SEALS);
    if (seals < 0 || (seals & SEALS) != SEALS || fstat(memory_fd, &st) != 0 ||
        (size_t)st.st_size != segment_bytes(world))
        return error_set(err, WK_EIO, "shared memory of a peer has the wrong size or no seals");
    int rc = map_head(segment, memory_fd, world, err);
    if (rc)
        return rc;
    const struct segment_head *head = segment->head;
    if (head->magic != SEGMENT_MAGIC || head->world != (uint32_t)world ||
        head->ring_bytes != ring_bytes(world)) {
        segment_fini(segment);
        return error_set(err, WK_EIO, "shared memory of a peer has another layout");
    }
    return 0;
}

void segment_fini(struct segment *segment)
{
    if (segment->head) {
        munmap(segment->head, segment->head_bytes);
        if (segment->memory_fd >= 0)
            close(segment->memory_fd);
    }
    *segment = (struct segment){.memory_fd = -1};
}

char *segment_map_ring(const struct segment *segment, int memory_fd, int writer)
{
    size_t bytes = segment->ring_bytes;
    off_t offset = (off_t)(segment->head_bytes + (size_t)writer * bytes);
    char *ring = mmap(NULL, 2 * bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (ring == MAP_FAILED)
        return NULL;
    for (int half = 0; half < 2; half++) {
        void *at = mmap(ring + (size_t)half * bytes, bytes, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_FIXED, memory_fd, offset);
        if (at == MAP_FAILED) {
            munmap(ring, 2 * bytes);
            return NULL;
        }
    }
    return ring;
}

void segment_unmap_ring(const struct segment *segment, char *ring)
{
    if (ring)
        munmap(ring, 2 * segment->ring_bytes);
}

void segment_ring_bell(struct segment_head *head, int bell_fd)
{
    if (atomic_load(&head->asleep) && atomic_exchange(&head->asleep, 0)) {
        uint64_t one = 1;
        /* A full counter means that it has rung already. */
        (void)!write(bell_fd, &one, sizeof(one));
    }
}
