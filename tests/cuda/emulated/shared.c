#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "tests/cuda/emulated/block.h"

/* Each array is memory of its own with a margin. Its bits are NaN in every floating-point type and
 * -1 in whole numbers. */
enum { ALIGN_BYTES = 128, MARGIN_BYTES = 128, NAN_BYTE = 0xff, MARGIN_BYTE = 0xa5 };

static size_t margin_of(void)
{
    return EMULATED_ASAN ? 0 : MARGIN_BYTES; /* AddressSanitizer has its own */
}

static void array_new(struct shared_array *array)
{
    size_t bytes = array->bytes + margin_of();
    void *memory = NULL;
    insist(posix_memalign(&memory, ALIGN_BYTES, bytes ? bytes : 1) == 0);
    array->memory = memory;
}

static void array_fill(struct shared_array *array)
{
    memset(array->memory, NAN_BYTE, array->bytes);
    memset(array->memory + array->bytes, MARGIN_BYTE, margin_of());
    array->filled = true;
}

static void array_free(struct shared_array *array)
{
    free(array->memory);
    array->memory = NULL;
}

static void array_spend(struct emulated_block *block, struct shared_array *array)
{
    struct spent *spent = malloc(sizeof(*spent));
    insist(spent);
    *spent = (struct spent){block->spent, array->memory};
    block->spent = spent;
    array->memory = NULL;
}

static size_t static_bytes(const struct emulated_block *block)
{
    size_t bytes = 0;
    for (int i = 1; i < block->n_shared; i++)
        bytes += block->shared[i].bytes;
    return bytes;
}

static void check_limits(const struct emulated_block *block)
{
    size_t own = static_bytes(block), all = own + block->grid->shared_bytes;
    if (own > SHARED_STATIC_MAX_BYTES)
        emulated_fault("%zu bytes of arrays in shared memory; at most %d", own,
                       SHARED_STATIC_MAX_BYTES);
    if (all > SHARED_MAX_BYTES)
        emulated_fault("%zu bytes of shared memory; at most %d", all, SHARED_MAX_BYTES);
}

void shared_begin(struct emulated_block *block)
{
    struct shared_array *dynamic = &block->shared[0];
    if (!block->n_shared)
        block->n_shared = 1;
    *dynamic = (struct shared_array){.name = "the launch's shared memory",
                                     .memory = dynamic->memory,
                                     .bytes = block->grid->shared_bytes};
    for (int i = 0; i < block->n_shared; i++) {
        block->shared[i].filled = false;
        if (EMULATED_TSAN)
            array_spend(block, &block->shared[i]);
    }
    check_limits(block);
}

void shared_check(struct emulated_block *block)
{
    for (int i = 0; i < block->n_shared; i++) {
        const struct shared_array *array = &block->shared[i];
        for (size_t at = 0; array->filled && at < margin_of(); at++) {
            if (array->memory[array->bytes + at] != MARGIN_BYTE)
                emulated_fault("%s was written %zu bytes past its end", array->name, at);
        }
    }
}

/* Arrays are those of a kernel: the next has others. */
void shared_free(struct emulated_block *block)
{
    for (int i = 0; i < block->n_shared; i++)
        array_free(&block->shared[i]);
    block->n_shared = 0;
    while (block->spent) {
        struct spent *spent = block->spent;
        block->spent = spent->next;
        free(spent->memory);
        free(spent);
    }
}

static void *array_use(struct shared_array *array)
{
    emulated_tsan_ignore(true);
    if (!array->memory)
        array_new(array);
    if (!array->filled)
        array_fill(array);
    emulated_tsan_ignore(false);
    return array->memory;
}

void *emulated_shared(const void *tag, size_t bytes, const char *name)
{
    struct emulated_block *block = lane_now()->view.block;
    for (int i = 1; i < block->n_shared; i++) {
        if (block->shared[i].tag == tag)
            return array_use(&block->shared[i]);
    }
    if (block->n_shared == SHARED_ARRAYS_MAX)
        emulated_fault("%d arrays in shared memory", SHARED_ARRAYS_MAX);
    struct shared_array *array = &block->shared[block->n_shared++];
    *array = (struct shared_array){.tag = tag, .name = name, .bytes = bytes};
    check_limits(block);
    return array_use(array);
}

void *emulated_shared_dynamic(void)
{
    return array_use(&lane_now()->view.block->shared[0]);
}
