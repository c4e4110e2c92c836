#include "bench/collectives/roofs.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/collectives/timing.h"
#include "bench/collectives/values.h"

enum { RANKS = 2, SPAN_BYTES = 2 * 1024 * 1024 };

/* What both processes see. */
struct flags {
    struct {
        _Alignas(64) _Atomic long at;
    } of[RANKS];
};

struct roof {
    int rank;
    long meetings;
    struct flags *flags;
    char *own,
        *other; /* halves: the buffers, mapped by both; alone: both its own; copy: from, to */
    int fd;     /* stream */
};

static void meet(struct roof *roof)
{
    roof->flags->of[roof->rank].at = ++roof->meetings;
    while (roof->flags->of[1 - roof->rank].at < roof->meetings)
        ;
}

static int copy(struct roof *roof, size_t bytes)
{
    memcpy(roof->other, roof->own, bytes);
    __asm__ volatile("" ::"r"(roof->other) : "memory");
    return 0;
}

enum { LINE = 16, AHEAD_LINES = 32 };

/* A line at a time, the other core's asked for ahead: without that a sum of what the other has just
 * written takes a tenth longer. Never beyond the end, which would take away what it is at. */
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__clang__)
__attribute__((target_clones("default", "avx2", "avx512f")))
#endif
static void
add(float *own, float *other, size_t count)
{
    size_t lines = count / LINE;
    for (size_t line = 0; line < lines; line++, own += LINE, other += LINE) {
        float sums[LINE];
        __builtin_prefetch(other + (line + AHEAD_LINES < lines ? AHEAD_LINES * LINE : 0));
        for (size_t i = 0; i < LINE; i++)
            sums[i] = own[i] + other[i];
        memcpy(own, sums, sizeof(sums));
        memcpy(other, sums, sizeof(sums));
    }
    for (size_t i = 0; i < count % LINE; i++)
        own[i] = other[i] = own[i] + other[i];
}

static int halves(struct roof *roof, size_t bytes)
{
    size_t count = bytes / sizeof(float), half = (count + 1) / 2;
    size_t first = roof->rank == 0 ? 0 : half;
    meet(roof);
    add((float *)(void *)roof->own + first, (float *)(void *)roof->other + first,
        roof->rank == 0 ? half : count - half);
    meet(roof);
    return 0;
}

static int alone(struct roof *roof, size_t bytes)
{
    meet(roof);
    add((float *)(void *)roof->own, (float *)(void *)roof->other, bytes / sizeof(float) / 2);
    meet(roof);
    return 0;
}

/* `bytes` out and `bytes` in over one socket. */
static int stream(struct roof *roof, size_t bytes)
{
    size_t sent = 0, got = 0;
    while (sent < bytes || got < bytes) {
        ssize_t n = sent < bytes ? send(roof->fd, roof->own + sent, bytes - sent, MSG_DONTWAIT) : 0;
        sent += n > 0 ? (size_t)n : 0;
        ssize_t m = got < bytes ? recv(roof->fd, roof->other + got, bytes - got, MSG_DONTWAIT) : 0;
        got += m > 0 ? (size_t)m : 0;
        if ((n < 0 && errno != EAGAIN) || (m < 0 && errno != EAGAIN))
            return -1;
        if (n <= 0 && m <= 0) {
            struct pollfd wait = {roof->fd, (short)(POLLIN | (sent < bytes ? POLLOUT : 0)), 0};
            (void)poll(&wait, 1, -1);
        }
    }
    return 0;
}

static const struct {
    const char *name;
    int (*once)(struct roof *roof, size_t bytes);
    double us_per_mib; /* about: how many calls make a batch, the same on both sides */
} roofs[] = {
    {"copy", copy, 30}, {"halves", halves, 15}, {"alone", alone, 15}, {"stream", stream, 200}};

static int number_of(const char *name)
{
    for (int i = 0; i < (int)(sizeof(roofs) / sizeof(roofs[0])); i++)
        if (strcmp(roofs[i].name, name) == 0)
            return i;
    return -1;
}

bool roof_known(const char *name)
{
    return number_of(name) >= 0;
}

enum { WRITES = 1, RUNS = 2 };

static double time_batch(struct roof *roof, int number, size_t bytes, int calls, int does)
{
    float pattern[PATTERN_COUNT];
    values_fill(pattern, PATTERN_COUNT, roof->rank);
    meet(roof);
    double from_us = now_us();
    for (int c = 0; c < calls; c++) {
        if (does & WRITES)
            values_rewrite((float *)(void *)roof->own, bytes / sizeof(float), pattern);
        if (does & RUNS && roofs[number].once(roof, bytes) != 0)
            return -1;
    }
    return (now_us() - from_us) / calls;
}

static int time_roof(struct roof *roof, int number, const size_t *sizes, int n)
{
    for (int i = 0; i < n; i++) {
        double again[BATCHES], rewritten[BATCHES] = {0};
        int calls = calls_of(roofs[number].us_per_mib * (double)sizes[i] / (1 << 20) + 0.2);
        bool rewrites = roofs[number].once == halves && sizes[i] >= REWRITTEN_BYTES_MIN;
        values_fill((float *)(void *)roof->own, sizes[i] / sizeof(float), roof->rank);
        if (roofs[number].once != halves)
            memset(roof->other, 1, sizes[i]);
        for (int b = 0; b < BATCHES; b++) {
            (void)time_batch(roof, number, sizes[i], 1, RUNS);
            again[b] = time_batch(roof, number, sizes[i], calls, RUNS);
            if (again[b] < 0)
                return 1;
            if (rewrites)
                rewritten[b] = time_batch(roof, number, sizes[i], calls, WRITES | RUNS) -
                               time_batch(roof, number, sizes[i], calls, WRITES);
        }
        if (roof->rank == 0)
            report(roofs[number].name, sizes[i], quantile(again, BATCHES, 0.5));
        if (roof->rank == 0 && rewrites)
            report_rewritten(roofs[number].name, sizes[i], quantile(rewritten, BATCHES, 0.5));
    }
    return 0;
}

static int connected_pair(int ret_fds[RANKS])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof(address);
    int on = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    ret_fds[0] = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&address, length) != 0 || listen(listener, 1) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &length) != 0 ||
        connect(ret_fds[0], (struct sockaddr *)&address, length) != 0)
        return -1;
    ret_fds[1] = accept(listener, NULL, NULL);
    close(listener);
    for (int i = 0; i < RANKS; i++) {
        (void)setsockopt(ret_fds[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        (void)setsockopt(ret_fds[i], IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
    }
    return 0;
}

/* Shared memory of huge pages where the kernel grants them, as an arena is. */
static char *memory_new(size_t bytes)
{
    size_t room = bytes + SPAN_BYTES;
    int fd = memfd_create("roof", MFD_CLOEXEC);
    char *space = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0 || space == MAP_FAILED)
        return NULL;
    char *at = space + (SPAN_BYTES - (uintptr_t)space % SPAN_BYTES) % SPAN_BYTES;
    at = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
    close(fd);
    if (at == MAP_FAILED)
        return NULL;
    (void)madvise(at, bytes, MADV_HUGEPAGE);
    return at;
}

int roof_run(const char *name, const size_t *sizes, int n)
{
    int number = number_of(name), fds[RANKS] = {-1, -1}, bad = 0;
    size_t most = 0;
    char *memory[2 * RANKS];
    pid_t pids[RANKS];
    for (int i = 0; i < n; i++)
        most = sizes[i] > most ? sizes[i] : most;
    for (int m = 0; m < 2 * RANKS; m++)
        if (!(memory[m] = memory_new(most)))
            return 1;
    struct flags *flags =
        mmap(NULL, sizeof(*flags), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    bool streams = roofs[number].once == stream, shares = roofs[number].once == halves;
    if (flags == MAP_FAILED || (streams && connected_pair(fds) != 0))
        return 1;
    for (int r = 0; r < RANKS; r++) {
        struct roof roof = {.rank = r, .flags = flags, .fd = fds[r]};
        roof.own = memory[r];
        roof.other = memory[shares ? 1 - r : RANKS + r];
        pids[r] = fork();
        if (pids[r] != 0)
            continue;
        bind_to_core(r);
        _exit(time_roof(&roof, number, sizes, n));
    }
    for (int r = 0; r < RANKS; r++) {
        int status = -1;
        bad |= waitpid(pids[r], &status, 0) != pids[r] || status != 0;
    }
    return bad;
}
