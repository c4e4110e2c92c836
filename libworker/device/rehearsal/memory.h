/* The rehearsal device's memories: spans by address, protection, and sentences about them. */
#ifndef REHEARSAL_MEMORY_H
#define REHEARSAL_MEMORY_H

#include "libworker/device/rehearsal/state.h"

/* Report a finding. Returns if the options have a function for it. */
void rehearsal_found(struct rehearsal *rehearsal, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* The span that has the address in its pages or beside them; freed ones too. NULL: none. */
struct span *span_at(const struct rehearsal *rehearsal, const void *address);

/* "byte 16 of device memory 3 (4096 bytes)", with ", which was freed". */
enum { SPAN_TEXT_MAX = 120 };
const char *span_text(const struct span *span, const void *address, char ret[SPAN_TEXT_MAX]);

/* NULL: there is no memory. */
struct span *span_new(struct rehearsal *rehearsal, enum memory_kind kind, size_t bytes);

/* Whether so much device memory is left. Addresses that have none of it, for space.c. */
bool memory_fits(const struct rehearsal *rehearsal, size_t bytes);
struct span *span_reserve(struct rehearsal *rehearsal, size_t bytes);

/* Checks that it is what device_memory_new returned and that no work uses it any more. */
void span_free(struct rehearsal *rehearsal, enum memory_kind kind, void *memory, size_t bytes);

/* Forget all spans, and report those that were not freed. */
void spans_fini(struct rehearsal *rehearsal);

/* Let host code and kernels do so much with whole pages: PROT_ of mprotect. */
void pages_protect(char *at, size_t bytes, int protection);

/* Content that no correct program depends on. Pattern 0 is NaN in every float format and 1 is
 * small and positive. poison_missing returns the first byte that differs, `bytes` if none does. */
void poison_fill(char *at, size_t bytes, int pattern);
size_t poison_missing(const char *at, size_t bytes, int pattern);

#endif
