#include "libworker/device/rehearsal/fiber.h"

#include <stddef.h>

#if FIBERS

#include <sanitizer/tsan_interface.h>
#include <stdint.h>
#include <stdlib.h>
#include <ucontext.h>

#include "common/base/assert.h"

/* ThreadSanitizer's dynamic annotations, which its header leaves out. */
void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreReadsEnd(const char *file, int line);
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);

enum { STACK_BYTES = 1 << 20 };

/* Host and fiber both use it, in turns that ThreadSanitizer does not know of. */
#define UNSEEN __attribute__((no_sanitize("thread")))

struct fiber {
    ucontext_t own, host;
    void *thread, *host_thread; /* of ThreadSanitizer */
    void (*run)(void *arg);
    void *arg;
    char stack[STACK_BYTES];
};

UNSEEN static void fiber_main(unsigned high, unsigned low)
{
    struct fiber *fiber = (struct fiber *)((uintptr_t)high << 32 | low);
    for (;;) {
        fiber->run(fiber->arg);
        __tsan_switch_to_fiber(fiber->host_thread, __tsan_switch_to_fiber_no_sync);
        (void)swapcontext(&fiber->own, &fiber->host);
    }
}

UNSEEN struct fiber *fiber_new(void)
{
    struct fiber *fiber = calloc(1, sizeof(*fiber));
    insist(fiber && getcontext(&fiber->own) == 0);
    fiber->own.uc_stack.ss_sp = fiber->stack;
    fiber->own.uc_stack.ss_size = sizeof(fiber->stack);
    fiber->thread = __tsan_create_fiber(0);
    uint64_t address = (uintptr_t)fiber; /* makecontext passes ints */
    makecontext(&fiber->own, (void (*)(void))fiber_main, 2, (unsigned)(address >> 32),
                (unsigned)address);
    return fiber;
}

void fiber_free(struct fiber *fiber)
{
    if (!fiber)
        return;
    __tsan_destroy_fiber(fiber->thread);
    free(fiber);
}

UNSEEN void fiber_call(struct fiber *fiber, void (*run)(void *arg), void *arg)
{
    fiber->run = run;
    fiber->arg = arg;
    fiber->host_thread = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(fiber->thread, __tsan_switch_to_fiber_no_sync);
    (void)swapcontext(&fiber->host, &fiber->own);
}

void fiber_release(void *at)
{
    if (at)
        __tsan_release(at);
}

void fiber_acquire(void *at)
{
    if (at)
        __tsan_acquire(at);
}

void fiber_hide_begin(void)
{
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
}

void fiber_hide_end(void)
{
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
}

#else

struct fiber *fiber_new(void)
{
    return NULL;
}

void fiber_free(struct fiber *fiber)
{
    (void)fiber;
}

void fiber_call(struct fiber *fiber, void (*run)(void *arg), void *arg)
{
    (void)fiber;
    run(arg);
}

void fiber_release(void *at)
{
    (void)at;
}

void fiber_acquire(void *at)
{
    (void)at;
}

void fiber_hide_begin(void)
{
}

void fiber_hide_end(void)
{
}

#endif
