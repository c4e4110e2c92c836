/* Streams of the fake runtime: lists of work, which the host runs by seed. A mark is a place in a
 * stream: what a record of an event leaves behind, and what the host waits for. */
#ifndef FAKE_STREAM_H
#define FAKE_STREAM_H

#include "tests/cuda/fake/inside.h"

struct mark {
    int users; /* its event, its work, those that wait */
    bool done;
    int stream; /* its slot */
    struct fake_clock clock;
    char token; /* ThreadSanitizer's: what is before the mark is before what follows it */
};

struct CUstream_st {
    int slot, device;
    struct work *first, **last;
    struct fake_clock clock; /* what is before its next work */
    struct fiber *fiber;
};

struct CUevent_st {
    int device;
    struct mark *mark;               /* NULL: never recorded */
    struct captured_event *captured; /* recorded in a capture instead (capture.h) */
};

void mark_drop(struct mark *mark); /* NULL is fine */

struct CUstream_st *stream_new(void); /* NULL: too many */
void stream_free(struct CUstream_st *stream);

void stream_add(struct CUstream_st *stream, const struct fake_work *work);
struct mark *stream_mark(struct CUstream_st *stream); /* the caller drops it */
void stream_wait(struct CUstream_st *stream, struct mark *mark);

/* The host waits. */
void host_wait(struct mark *mark);

#endif
