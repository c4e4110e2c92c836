/* Capture of streams into graphs. A capture begins on a stream; others join it where they wait for
 * an event that was recorded in it. Its work is kept with what is before it, and runs in an order
 * drawn by seed that this allows, each time that the graph is launched.
 *
 * As CUDA does it: a wait of the host for a stream that is captured, an allocation or a free
 * meanwhile, and a wait for an event from outside make the capture invalid. Then its calls and its
 * end return errors. Events of a capture mean nothing outside of it. */
#ifndef FAKE_CAPTURE_H
#define FAKE_CAPTURE_H

#include "tests/cuda/fake/stream.h"

struct captured_event;

bool is_captured(const struct CUstream_st *stream);

/* The host may not do this now: cudaErrorStreamCaptureUnsupported, and the captures of the stream,
 * or with NULL all of them, are invalid. */
cudaError_t capture_forbids(const struct CUstream_st *stream);

/* Of a stream that is captured. Both own what they are given, also on failure. */
cudaError_t capture_work(struct CUstream_st *stream, const struct fake_work *work);
cudaError_t capture_copy(struct CUstream_st *stream, void *to, const void *from, size_t bytes);
cudaError_t capture_record(struct CUstream_st *stream, struct CUevent_st *event);

/* The stream waits for an event that was recorded in a capture, or is itself captured. */
cudaError_t capture_wait(struct CUstream_st *stream, const struct CUevent_st *event);
void captured_event_drop(struct CUevent_st *event);

int graphs_live(void); /* graphs and executables that are not destroyed */

#endif
