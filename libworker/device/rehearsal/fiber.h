/* Queues as threads of ThreadSanitizer. In its builds work runs on a fiber of its queue, with a
 * stack of its own, and only enqueuing, events and waits of the host order fibers. It then reports
 * what declared ranges do not show: host memory that a launch reads while the host or another queue
 * writes it, with the lines of both. In other builds work runs on the caller's stack, and all else
 * here does nothing. One thread. Source: sanitizer/tsan_interface.h. */
#ifndef REHEARSAL_FIBER_H
#define REHEARSAL_FIBER_H

#if defined(__SANITIZE_THREAD__)
#define FIBERS 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FIBERS 1
#endif
#endif
#ifndef FIBERS
#define FIBERS 0
#endif

struct fiber;

/* NULL in builds without ThreadSanitizer. The program ends when there is no memory. */
struct fiber *fiber_new(void);
void fiber_free(struct fiber *fiber); /* NULL is fine */

/* Call run(arg) on the fiber. Not from a fiber. */
void fiber_call(struct fiber *fiber, void (*run)(void *arg), void *arg);

/* What is done before fiber_release(at) is before what is done after fiber_acquire(at). `at` is any
 * address; NULL is ignored. */
void fiber_release(void *at);
void fiber_acquire(void *at);

/* Between these two, accesses of the host are not seen: they are the device's own. */
void fiber_hide_begin(void);
void fiber_hide_end(void);

#endif
