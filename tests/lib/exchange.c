#include "tests/lib/exchange.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "libworker/precision/half.h"

enum { CALLS_MAX = 1 << 15, DATA_BYTES = 1 << 28, LOOK_US = 200 };

/* What a rank contributed to a call, the call as it made it, and whether it got the result. */
struct part {
    _Atomic int there;
    enum { NOT_ENDED, GOT_RESULT, WAS_STOPPED } end;
    struct exchange_call call;
    size_t at, bytes;
};

struct exchange {
    struct {
        _Atomic int joined;
        uint64_t device;
        size_t used;
        struct part parts[CALLS_MAX];
        unsigned char data[DATA_BYTES];
    } ranks[EXCHANGE_RANKS_MAX];
};

size_t exchange_bytes(void)
{
    return sizeof(struct exchange);
}

static _Noreturn void broken(const char *what)
{
    (void)fprintf(stderr, "exchange: %s\n", what);
    abort();
}

void exchange_join(struct exchange *ex, int rank, uint64_t device)
{
    ex->ranks[rank].device = device;
    atomic_store(&ex->ranks[rank].joined, 1);
}

bool exchange_joined(const struct exchange *ex, int world)
{
    for (int rank = 0; rank < world; rank++)
        if (!atomic_load(&ex->ranks[rank].joined))
            return false;
    return true;
}

int exchange_twin(const struct exchange *ex, int rank, int world)
{
    for (int other = 0; other < world; other++)
        if (other != rank && ex->ranks[other].device == ex->ranks[rank].device)
            return other;
    return -1;
}

static size_t rows_of(const struct exchange_call *call)
{
    return call->count * (size_t)call->world;
}

size_t exchange_in(const struct exchange_call *call)
{
    bool rows = call->kind == EXCHANGE_SCATTER || call->kind == EXCHANGE_ALL;
    if (call->kind == EXCHANGE_SPREAD && call->rank != call->root)
        return 0;
    return rows ? rows_of(call) : call->count;
}

size_t exchange_out(const struct exchange_call *call)
{
    bool rows = call->kind == EXCHANGE_GATHER || call->kind == EXCHANGE_ALL;
    return rows ? rows_of(call) : call->count;
}

void exchange_publish(struct exchange *ex, const struct exchange_call *call, const void *in)
{
    struct part *part = &ex->ranks[call->rank].parts[call->number];
    size_t bytes = exchange_in(call) * wk_dtype_bytes(call->type), *used;
    if (call->number >= CALLS_MAX)
        broken("too many calls");
    used = &ex->ranks[call->rank].used;
    if (!atomic_load(&part->there)) {
        part->call = *call;
        part->at = *used;
        part->bytes = bytes;
        *used += (bytes + 63) / 64 * 64;
    }
    if (*used > DATA_BYTES)
        broken("too much data");
    if (bytes)
        memcpy(ex->ranks[call->rank].data + part->at, in, bytes);
    atomic_store(&part->there, 1);
}

static void compare(const struct exchange_call *own, const struct exchange_call *other)
{
    if (own->kind != other->kind || own->count != other->count || own->type != other->type ||
        own->root != other->root || own->world != other->world)
        broken("the ranks make different calls");
    if (own->place != other->place)
        broken("the ranks use different places of shared memory");
}

bool exchange_there(struct exchange *ex, const struct exchange_call *call)
{
    for (int rank = 0; rank < call->world; rank++) {
        struct part *part = &ex->ranks[rank].parts[call->number];
        if (!atomic_load(&part->there))
            return false;
        compare(call, &part->call);
    }
    return true;
}

static bool await_parts(struct exchange *ex, const struct exchange_call *call,
                        const _Atomic int *stopped)
{
    const struct timespec pause = {.tv_nsec = LOOK_US * 1000L};
    for (int rank = 0; rank < call->world; rank++) {
        struct part *part = &ex->ranks[rank].parts[call->number];
        while (!atomic_load(&part->there)) {
            if (atomic_load(stopped))
                return false;
            (void)nanosleep(&pause, NULL);
        }
        compare(call, &part->call);
    }
    return true;
}

/* Decided once: a device may run a call again to compare results, and parts may come meanwhile. */
static bool await(struct exchange *ex, const struct exchange_call *call, const _Atomic int *stopped)
{
    struct part *own = &ex->ranks[call->rank].parts[call->number];
    if (own->end == NOT_ENDED)
        own->end = await_parts(ex, call, stopped) ? GOT_RESULT : WAS_STOPPED;
    return own->end == GOT_RESULT;
}

static const unsigned char *data_of(struct exchange *ex, const struct exchange_call *call, int rank)
{
    return ex->ranks[rank].data + ex->ranks[rank].parts[call->number].at;
}

/* Element i of a row, from the last rank to the first, and for f16 and bf16 rounded at each. */
static void add(void *to, const void *from, enum wk_dtype type, size_t i)
{
    switch (type) {
    case WK_F32:
        ((float *)to)[i] += ((const float *)from)[i];
        return;
    case WK_F64:
        ((double *)to)[i] += ((const double *)from)[i];
        return;
    case WK_I32:
        ((uint32_t *)to)[i] += ((const uint32_t *)from)[i];
        return;
    case WK_I64:
        ((uint64_t *)to)[i] += ((const uint64_t *)from)[i];
        return;
    case WK_F16:
        ((uint16_t *)to)[i] =
            f16_of_f32(f32_of_f16(((uint16_t *)to)[i]) + f32_of_f16(((const uint16_t *)from)[i]));
        return;
    case WK_BF16:
        ((uint16_t *)to)[i] = bf16_of_f32(f32_of_bf16(((uint16_t *)to)[i]) +
                                          f32_of_bf16(((const uint16_t *)from)[i]));
        return;
    case WK_U8:
    case WK_BOOL:
        ((uint8_t *)to)[i] = (uint8_t)(((uint8_t *)to)[i] + ((const uint8_t *)from)[i]);
        return;
    }
}

static void sum(struct exchange *ex, const struct exchange_call *call, void *out)
{
    size_t size = wk_dtype_bytes(call->type);
    size_t first = call->kind == EXCHANGE_SCATTER ? (size_t)call->rank * call->count * size : 0;
    memcpy(out, data_of(ex, call, call->world - 1) + first, call->count * size);
    for (int rank = call->world - 2; rank >= 0; rank--)
        for (size_t i = 0; i < call->count; i++)
            add(out, data_of(ex, call, rank) + first, call->type, i);
}

bool exchange_result(struct exchange *ex, const struct exchange_call *call, void *out,
                     const _Atomic int *stopped)
{
    size_t row = call->count * wk_dtype_bytes(call->type), own = (size_t)call->rank * row;
    enum { GARBAGE = 0xab };
    if (!await(ex, call, stopped)) {
        memset(out, GARBAGE, exchange_out(call) * wk_dtype_bytes(call->type));
        return false;
    }
    switch (call->kind) {
    case EXCHANGE_SUM:
    case EXCHANGE_SCATTER:
        sum(ex, call, out);
        return true;
    case EXCHANGE_GATHER:
    case EXCHANGE_ALL:
        for (int rank = 0; rank < call->world; rank++)
            memcpy((char *)out + (size_t)rank * row,
                   data_of(ex, call, rank) + (call->kind == EXCHANGE_ALL ? own : 0), row);
        return true;
    case EXCHANGE_SPREAD:
        memcpy(out, data_of(ex, call, call->root), row);
        return true;
    }
    return true;
}
