/* Stacks to switch between, known to AddressSanitizer and ThreadSanitizer. Under the latter each
 * lane is a thread of its own, so that races between lanes are seen; switching orders nothing.
 * One thread's stacks are its own.
 */
#ifndef EMULATED_FIBER_H
#define EMULATED_FIBER_H

#include <stdbool.h>
#include <stddef.h>

/* Set by the build. These files are compiled without it: all lanes use their memory in turns. */
#ifndef EMULATED_TSAN
#define EMULATED_TSAN 0
#endif

#ifdef __SANITIZE_ADDRESS__
#define EMULATED_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define EMULATED_ASAN 1
#endif
#endif
#ifndef EMULATED_ASAN
#define EMULATED_ASAN 0
#endif

struct emulated_fiber;

/* A stack on which run(arg) begins at the first resume, and never returns. */
struct emulated_fiber *emulated_fiber_new(void (*run)(void *arg), void *arg);
void emulated_fiber_free(struct emulated_fiber *fiber);

/* From the thread's own stack into the fiber, as ThreadSanitizer's thread `tsan`; and back. */
void emulated_fiber_resume(struct emulated_fiber *fiber, void *tsan);
void emulated_fiber_pause(struct emulated_fiber *fiber);

/* ThreadSanitizer's threads; NULL and nothing without it. `become` goes on as another thread on the
 * same stack. */
void *emulated_tsan_new(void);
void emulated_tsan_free(void *tsan);
void emulated_tsan_become(void *tsan);
void emulated_tsan_release(void *at);
void emulated_tsan_acquire(void *at);
void emulated_tsan_ignore(bool begin); /* what this thread writes */

#endif
