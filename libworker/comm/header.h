/* The operations, and the header that each rank sends to each other before one: ranks that call
 * different operations fail with both descriptions. Pure, any thread. */
#ifndef COMM_HEADER_H
#define COMM_HEADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* kind, name */
#define KIND_LIST(X)                                                                               \
    X(ALL_REDUCE, "all_reduce")                                                                    \
    X(BROADCAST, "broadcast")                                                                      \
    X(ALL_GATHER, "all_gather")                                                                    \
    X(REDUCE_SCATTER, "reduce_scatter")                                                            \
    X(BARRIER, "barrier")                                                                          \
    X(REDUCE, "reduce")                                                                            \
    X(GATHER, "gather")                                                                            \
    X(SCATTER, "scatter")                                                                          \
    X(ALL_TO_ALL, "all_to_all")                                                                    \
    X(ALL_TO_ALL_V, "all_to_all_v")                                                                \
    X(ALL_GATHER_V, "all_gather_v")                                                                \
    X(REDUCE_SCATTER_V, "reduce_scatter_v")                                                        \
    X(SEND, "send")                                                                                \
    X(RECV, "recv")                                                                                \
    X(SEND_RECV, "send_recv")

enum kind {
#define X(name, text) KIND_##name,
    KIND_LIST(X)
#undef X
};

#define X(name, text) +1
enum { KINDS = 0 KIND_LIST(X) };
#undef X

const char *kind_name(uint8_t kind);

static inline bool kind_is_pairwise(enum kind kind)
{
    return kind == KIND_SEND || kind == KIND_RECV || kind == KIND_SEND_RECV;
}

/* Of different lengths; the headers of such an operation have them. */
static inline bool kind_has_rows(enum kind kind)
{
    return kind == KIND_ALL_TO_ALL_V || kind == KIND_ALL_GATHER_V || kind == KIND_REDUCE_SCATTER_V;
}

enum { HEADER_MAGIC = 0x6b77, DESCRIPTION_BYTES = 128 };

/* Sent before every operation from each rank to each other. Little endian, like all supported
 * machines. */
struct header {
    uint16_t magic;
    uint8_t place; /* of `in` and `out`; may differ between ranks */
    uint8_t finish;
    uint8_t kind;
    uint8_t op;
    uint8_t dtype;
    uint8_t out_dtype;
    int32_t root;
    float scale;
    uint64_t sequence;
    uint64_t count;
};

enum { PLACE_IN = 1, PLACE_OUT = 2 };
/* The bits above these have the way + 1 if it was forced. Ranks that force different ways would
 * otherwise wait for ever. */
enum {
    FINISH_ACTIVE = 1,
    FINISH_CONVERTS = 2,
    FINISH_SQUARES = 4,
    FINISH_NONFINITE = 8,
    FINISH_WAY_SHIFT = 4
};

/* Equal but for the place. */
bool header_agrees(const struct header *a, const struct header *b);

/* "all_reduce #7 (sum of 1000 f32, 4000 bytes)" */
void header_describe(const struct header *header, char *ret_text, size_t bytes);

#endif
