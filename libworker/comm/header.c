#include "libworker/comm/header.h"

#include <stdio.h>
#include <string.h>

#include <worker/types.h>

#include "libworker/comm/ways.h"

const char *kind_name(uint8_t kind)
{
    static const char *const names[] = {
#define X(name, text) text,
        KIND_LIST(X)
#undef X
    };
    return kind < KINDS ? names[kind] : "unknown";
}

/* Compare by words, without a changed copy. A load that is wider than the store it depends on waits
 * until all earlier stores have left the core, our own post among them. */
bool header_agrees(const struct header *a, const struct header *b)
{
    const struct header all = {.place = UINT8_MAX};
    uint64_t place[sizeof(*a) / 8], x[sizeof(*a) / 8], y[sizeof(*a) / 8];
    memcpy(place, &all, sizeof(all));
    memcpy(x, a, sizeof(*a));
    memcpy(y, b, sizeof(*b));
    return (((x[0] ^ y[0]) & ~place[0]) | (x[1] ^ y[1]) | (x[2] ^ y[2]) | (x[3] ^ y[3])) == 0;
}

/* "sum of 1000 f32", "1000 f32 from rank 2", "1000 f32 of each" */
static void describe_data(const struct header *header, char *ret_text, size_t bytes)
{
    static const char *const ops[] = {"sum", "mean", "max", "min"};
    unsigned long long count = header->count;
    const char *dtype = wk_dtype_name((enum wk_dtype)header->dtype);
    const char *op = header->op < 4 ? ops[header->op] : "?";
    switch ((enum kind)header->kind) {
    case KIND_ALL_REDUCE:
    case KIND_REDUCE_SCATTER:
        snprintf(ret_text, bytes, "%s of %llu %s", op, count, dtype);
        return;
    case KIND_REDUCE:
        snprintf(ret_text, bytes, "%s of %llu %s to rank %d", op, count, dtype, header->root);
        return;
    case KIND_BROADCAST:
    case KIND_SCATTER:
        snprintf(ret_text, bytes, "%llu %s from rank %d", count, dtype, header->root);
        return;
    case KIND_GATHER:
    case KIND_SEND:
        snprintf(ret_text, bytes, "%llu %s to rank %d", count, dtype, header->root);
        return;
    case KIND_ALL_GATHER:
    case KIND_ALL_TO_ALL:
        snprintf(ret_text, bytes, "%llu %s of each", count, dtype);
        return;
    case KIND_ALL_TO_ALL_V:
    case KIND_ALL_GATHER_V:
    case KIND_REDUCE_SCATTER_V:
    case KIND_RECV:
    case KIND_SEND_RECV:
    case KIND_BARRIER:
        break;
    }
    snprintf(ret_text, bytes, "%llu %s", count, dtype);
}

void header_describe(const struct header *header, char *ret_text, size_t bytes)
{
    unsigned long long sequence = header->sequence, count = header->count;
    char data[DESCRIPTION_BYTES / 2];
    if (header->magic != HEADER_MAGIC) {
        snprintf(ret_text, bytes, "something that is no collective");
        return;
    }
    if (header->kind == KIND_BARRIER) {
        snprintf(ret_text, bytes, "barrier #%llu", sequence);
        return;
    }
    describe_data(header, data, sizeof(data));
    const char *finished = header->finish & FINISH_ACTIVE ? ", finished" : "";
    const char *squares = header->finish & FINISH_SQUARES ? ", with its squares" : "";
    const char *nonfinite = header->finish & FINISH_NONFINITE ? ", checked for NaN" : "";
    int way = header->finish >> FINISH_WAY_SHIFT;
    bool forced = way > 0 && way <= WAYS;
    snprintf(ret_text, bytes, "%s #%llu (%s, %llu bytes%s%s%s%s%s)", kind_name(header->kind),
             sequence, data, count * wk_dtype_bytes((enum wk_dtype)header->dtype), finished,
             squares, nonfinite, forced ? ", forced " : "",
             forced ? way_name((enum way)(way - 1)) : "");
}
