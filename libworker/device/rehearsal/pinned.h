/* Pinned memory while copies are in flight: the host may not write a source or touch a target.
 * Whole pages are protected; bytes that share a page with others are checked by content when the
 * host has waited. */
#ifndef REHEARSAL_PINNED_H
#define REHEARSAL_PINNED_H

#include "libworker/device/rehearsal/state.h"

/* The pinned memory that has all of the bytes; NULL: none. */
struct span *pinned_of(const struct rehearsal *rehearsal, const void *at, size_t bytes);

/* A copy is enqueued. */
void pinned_begin(struct rehearsal *rehearsal, struct span *span, const struct flight *flight);

/* The copy that began last was not enqueued after all. */
void pinned_cancel(struct rehearsal *rehearsal, struct span *span);

/* The host has waited, rehearsal->host says for what: copies have landed. */
void pinned_release(struct rehearsal *rehearsal);

/* The device has failed: all of it is the host's again, with undefined content. */
void pinned_abandon(struct rehearsal *rehearsal);

#endif
