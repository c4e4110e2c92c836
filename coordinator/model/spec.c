#include "coordinator/model/spec.h"

#include <stdlib.h>

#include "common/base/arena.h"
#include "common/base/assert.h"
#include "coordinator/model/spec_internal.h"

enum { SPEC_TEXTS_MAX_BYTES = 2 * SPEC_TEXT_MAX_BYTES };

struct spec *spec_hold(struct spec *spec)
{
    insist(spec->references > 0);
    spec->references++;
    return spec;
}

void spec_release(struct spec *spec)
{
    if (!spec || --spec->references > 0)
        return;
    struct spec_block *block = (struct spec_block *)spec;
    arena_fini(&block->arena);
    free(block);
}

struct spec_block *spec_block_new(void)
{
    struct spec_block *block = calloc(1, sizeof(*block));
    insist(block);
    arena_init(&block->arena, SPEC_TEXTS_MAX_BYTES);
    return block;
}
