#include "tests/cuda/emulated/fiber.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "common/base/assert.h"

#if EMULATED_TSAN
#include <sanitizer/tsan_interface.h>

/* Dynamic annotations, which its header leaves out. */
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);
#endif
#if EMULATED_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

enum { STACK_BYTES = 256 << 10, GUARD_BYTES = 4096 };

struct context {
#ifdef __x86_64__
    void *stack; /* its registers are on it */
#else
    ucontext_t own;
#endif
};

struct emulated_fiber {
    struct context own, host;
    void (*run)(void *arg);
    void *arg;
    char *memory; /* a guard page, then the stack */
    void *host_tsan;
    void *fake, *host_fake; /* AddressSanitizer's */
    const void *host_bottom;
    size_t host_bytes;
};

#ifdef __x86_64__
/* Save the registers that a call keeps, and continue on another stack. */
void emulated_switch(void **save, void *to);
__asm__(".text\n"
        ".globl emulated_switch\n"
        ".hidden emulated_switch\n"
        ".type emulated_switch, @function\n"
        "emulated_switch:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size emulated_switch, .-emulated_switch\n");

static void switch_to(struct context *from, struct context *to)
{
    emulated_switch(&from->stack, to->stack);
}
#else
static void switch_to(struct context *from, struct context *to)
{
    (void)swapcontext(&from->own, &to->own);
}
#endif

static void leave_host(struct emulated_fiber *f)
{
#if EMULATED_ASAN
    __sanitizer_start_switch_fiber(&f->host_fake, f->memory + GUARD_BYTES, STACK_BYTES);
#else
    (void)f;
#endif
}

static void enter_fiber(struct emulated_fiber *f)
{
#if EMULATED_ASAN
    __sanitizer_finish_switch_fiber(f->fake, &f->host_bottom, &f->host_bytes);
#else
    (void)f;
#endif
}

static void leave_fiber(struct emulated_fiber *f)
{
#if EMULATED_ASAN
    __sanitizer_start_switch_fiber(&f->fake, f->host_bottom, f->host_bytes);
#else
    (void)f;
#endif
}

static void enter_host(struct emulated_fiber *f)
{
#if EMULATED_ASAN
    __sanitizer_finish_switch_fiber(f->host_fake, NULL, NULL);
#else
    (void)f;
#endif
}

/* The fiber that begins; a stack's first frame has no arguments. */
static __thread struct emulated_fiber *beginning __attribute__((tls_model("initial-exec")));

static void fiber_begin(void)
{
    struct emulated_fiber *f = beginning;
    enter_fiber(f);
    f->run(f->arg);
    abort();
}

#ifdef __x86_64__
static void context_prepare(struct emulated_fiber *f)
{
    enum { REGISTERS = 6 };
    uint64_t *top = (uint64_t *)(f->memory + GUARD_BYTES + STACK_BYTES);
    *--top = 0; /* as after a call from nowhere */
    *--top = (uint64_t)(uintptr_t)fiber_begin;
    for (int i = 0; i < REGISTERS; i++)
        *--top = 0;
    f->own.stack = top;
}
#else
static void context_prepare(struct emulated_fiber *f)
{
    insist(getcontext(&f->own.own) == 0);
    f->own.own.uc_stack.ss_sp = f->memory + GUARD_BYTES;
    f->own.own.uc_stack.ss_size = STACK_BYTES;
    makecontext(&f->own.own, fiber_begin, 0);
}
#endif

struct emulated_fiber *emulated_fiber_new(void (*run)(void *arg), void *arg)
{
    struct emulated_fiber *f = calloc(1, sizeof(*f));
    insist(f);
    f->run = run;
    f->arg = arg;
    f->memory = mmap(NULL, GUARD_BYTES + STACK_BYTES, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    insist(f->memory != MAP_FAILED && mprotect(f->memory, GUARD_BYTES, PROT_NONE) == 0);
    context_prepare(f);
    return f;
}

void emulated_fiber_free(struct emulated_fiber *f)
{
    if (!f)
        return;
    (void)munmap(f->memory, GUARD_BYTES + STACK_BYTES);
    free(f);
}

void emulated_fiber_resume(struct emulated_fiber *f, void *tsan)
{
    beginning = f;
#if EMULATED_TSAN
    f->host_tsan = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(tsan, __tsan_switch_to_fiber_no_sync);
#else
    (void)tsan;
#endif
    leave_host(f);
    switch_to(&f->host, &f->own);
    enter_host(f);
}

void emulated_fiber_pause(struct emulated_fiber *f)
{
#if EMULATED_TSAN
    __tsan_switch_to_fiber(f->host_tsan, __tsan_switch_to_fiber_no_sync);
#endif
    leave_fiber(f);
    switch_to(&f->own, &f->host);
    enter_fiber(f);
}

#if EMULATED_TSAN
void *emulated_tsan_new(void)
{
    return __tsan_create_fiber(0);
}

void emulated_tsan_free(void *tsan)
{
    __tsan_destroy_fiber(tsan);
}

void emulated_tsan_become(void *tsan)
{
    __tsan_switch_to_fiber(tsan, __tsan_switch_to_fiber_no_sync);
}

void emulated_tsan_release(void *at)
{
    __tsan_release(at);
}

void emulated_tsan_acquire(void *at)
{
    __tsan_acquire(at);
}

void emulated_tsan_ignore(bool begin)
{
    if (begin)
        AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
    else
        AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
}
#else
void *emulated_tsan_new(void)
{
    return NULL;
}

void emulated_tsan_free(void *tsan)
{
    (void)tsan;
}

void emulated_tsan_become(void *tsan)
{
    (void)tsan;
}

void emulated_tsan_release(void *at)
{
    (void)at;
}

void emulated_tsan_acquire(void *at)
{
    (void)at;
}

void emulated_tsan_ignore(bool begin)
{
    (void)begin;
}
#endif
