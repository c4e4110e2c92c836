/* A tensor around the dimension of its channels, [outer, channels, inner], as spans: runs of
 * elements side by side. A span is of one channel. Where channels are innermost it is of several,
 * with an element each.
 *
 *       struct channel_walk w = channel_walk(x, dim);
 *       for (struct channel_span s; channel_next(&w, &s);) … s.count elements from s.at on …
 *
 * Element i of a span is of channel s.channel + i * s.step. Spans are in order, and at most a tile.
 * Pure, any thread. */
#ifndef OP_CHANNEL_H
#define OP_CHANNEL_H

#include "libworker/graph/op/tile.h"

struct channel_walk {
    int64_t channels, inner, count;
    int64_t at; /* the next element */
};

struct channel_span {
    int64_t at, count;
    int64_t channel;
    int step; /* 0: all of this channel; 1: the next element is of the next channel */
};

static inline struct channel_walk channel_walk(const struct op_tensor *x, int dim)
{
    struct channel_walk w = {.channels = x->shape[dim], .inner = 1, .count = x->count};
    for (int i = dim + 1; i < x->dims; i++)
        w.inner *= x->shape[i];
    return w;
}

static inline bool channel_next(struct channel_walk *w, struct channel_span *ret)
{
    if (w->at >= w->count)
        return false;
    int64_t row = w->inner == 1 ? w->channels : w->inner;
    ret->at = w->at;
    ret->count = tile_at(row, w->at % row);
    ret->channel = w->inner == 1 ? w->at % w->channels : w->at / w->inner % w->channels;
    ret->step = w->inner == 1;
    w->at += ret->count;
    return true;
}

#endif
