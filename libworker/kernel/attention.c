/* What every back end's attention shares: which keys a query sees, and the memory of a call. */
#include "libworker/kernel/attention.h"
#include "libworker/kernel/cpu/attention_tiles.h"

enum { LINE_BYTES = 64 }; /* scratch memory is aligned to it */

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* From the last query on, as the end of a document is that of the next position in it. */
void attention_spans(const struct kernel_attention *a, int64_t sample, int32_t *first, int32_t *end)
{
    const int32_t *starts = a->starts ? a->starts + sample * a->length : NULL;
    int64_t document_end = a->keys;
    for (int64_t i = a->length - 1; i >= 0; i--) {
        int64_t at = a->keys - a->length + i, from = 0;
        if (starts && i + 1 < a->length && starts[i] != starts[i + 1])
            document_end = at + 1;
        int64_t to = a->causal ? smaller(document_end, at + 1) : document_end;
        if (starts)
            from = larger(from, starts[i]);
        if (a->window > 0 && a->window < a->keys + a->length) {
            from = larger(from, at - a->window + 1);
            to = smaller(to, at + a->window);
        }
        end[i] = (int32_t)larger(to, 0);
        first[i] = (int32_t)smaller(from, end[i]);
    }
}

size_t attention_scratch_bytes(const struct kernel_attention *a, bool backward)
{
    int64_t keys = attention_keys_padded(a->keys), size = attention_padded(a->size);
    int64_t copies = (backward ? 5 : 2) * keys * size;
    int64_t rows = (backward ? 3 : 2) * ATTENTION_ROWS * size;
    int64_t scores = (backward ? 2 : 1) * ATTENTION_ROWS * ATTENTION_SCORES;
    int64_t floats = copies + rows + scores + 2 * (ATTENTION_ROWS + a->length);
    enum { ARRAYS = 16 }; /* each begins a line */
    return (size_t)floats * sizeof(float) + (size_t)ARRAYS * LINE_BYTES;
}
