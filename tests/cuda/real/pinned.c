#include "tests/cuda/real/pinned.h"

#include <cuda_runtime_api.h>
#include <malloc.h>
#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HEAP_BYTES = 192 << 20, LINE_BYTES = 512 };

/* Of the linker: what the program's own variables are between. */
extern char __data_start[], _end[];

static void skip(const char *what, cudaError_t rc)
{
    printf("SKIPPED: %s: %s (%s)\n", what, cudaGetErrorString(rc), cudaGetErrorName(rc));
    exit(77);
}

/* Before main, so that nothing large is elsewhere: all of malloc is in the heap. */
__attribute__((constructor)) static void one_heap(void)
{
    (void)mallopt(M_MMAP_MAX, 0);
    (void)mallopt(M_ARENA_MAX, 1);
    (void)mallopt(M_TRIM_THRESHOLD, INT32_MAX);
    (void)mallopt(M_TOP_PAD, HEAP_BYTES);
    free(malloc(HEAP_BYTES / 2)); /* grows it by both */
}

static void pin(const char *what, uintptr_t from, uintptr_t to)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    from = from / page * page;
    to = (to + page - 1) / page * page;
    cudaError_t rc = cudaHostRegister((void *)from, to - from, cudaHostRegisterMapped);
    if (rc != cudaSuccess)
        skip(what, rc);
}

static void pin_heap(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[LINE_BYTES];
    uintptr_t from = 0, to = 0;
    while (maps && fgets(line, sizeof(line), maps)) {
        if (!strstr(line, "[heap]"))
            continue;
        char *dash; /* of "55d0-55f0 rw-p" */
        from = strtoull(line, &dash, 16);
        to = strtoull(dash + 1, NULL, 16);
        break;
    }
    if (maps)
        (void)fclose(maps);
    pin("the heap cannot be pinned", from, to);
}

void pinned_begin(void)
{
    static int begun;
    int same = 0;
    cudaError_t rc = cudaSuccess;
    if (begun++)
        return;
    rc = cudaDeviceGetAttribute(&same, cudaDevAttrCanUseHostPointerForRegisteredMem, 0);
    if (rc != cudaSuccess)
        skip("there is no GPU to use", rc);
    if (!same)
        skip("this GPU has other addresses for pinned memory", cudaErrorNotSupported);
    pin("the program's data cannot be pinned", (uintptr_t)__data_start, (uintptr_t)_end);
    pin_heap();
}
