/* Which pages of device memory a piece of work touches: closed before it, each page is opened at
 * the first touch, for reading or for writing. */
#include "tests/cuda/fake/watch.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "common/base/assert.h"
#include "tests/cuda/fake/inside.h"

enum { STACK_BYTES = 64 << 10, WRITE_FAULT = 2 };

static struct {
    void (*call)(void *arg, const struct fake_touched *touched);
    void *arg;
    struct fake_touched now;
    struct sigaction before;
} watch;

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

bool fake_can_watch(void)
{
    return true;
}

/* The processor says whether it wanted to write. */
static void touch(int number, siginfo_t *info, void *context)
{
    const ucontext_t *u = context;
    bool writes = u->uc_mcontext.gregs[REG_ERR] & WRITE_FAULT;
    char *page = (char *)((uintptr_t)info->si_addr / FAKE_PAGE * FAKE_PAGE);
    if (!fake_memory_is_device(info->si_addr)) {
        (void)sigaction(number, &watch.before, NULL); /* the same again, as without us */
        return;
    }
    *(writes ? &watch.now.written : &watch.now.read) += FAKE_PAGE;
    if (mprotect(page, FAKE_PAGE, writes ? PROT_READ | PROT_WRITE : PROT_READ))
        _exit(1);
}

#else

bool fake_can_watch(void)
{
    return false;
}

static void touch(int number, siginfo_t *info, void *context)
{
    (void)number, (void)info, (void)context;
}

#endif

void fake_watch(void (*call)(void *arg, const struct fake_touched *touched), void *arg)
{
    static char stack[STACK_BYTES];
    const stack_t own = {.ss_sp = stack, .ss_size = sizeof(stack)};
    struct sigaction action = {.sa_sigaction = touch, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    insist(fake_can_watch() || !call);
    if (call && !watch.call) {
        insist(sigaltstack(&own, NULL) == 0);
        insist(sigaction(SIGSEGV, &action, &watch.before) == 0);
    } else if (!call && watch.call) {
        insist(sigaction(SIGSEGV, &watch.before, NULL) == 0);
    }
    watch.call = call;
    watch.arg = arg;
}

bool touches_begin(const char *name)
{
    watch.now = (struct fake_touched){.name = name};
    if (watch.call)
        fake_memory_close();
    return watch.call;
}

void touches_end(void)
{
    fake_memory_open(); /* all of it, as after other work */
    watch.call(watch.arg, &watch.now);
}
