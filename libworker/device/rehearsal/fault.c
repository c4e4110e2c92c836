#include "libworker/device/rehearsal/fault.h"

#include <signal.h>
#include <ucontext.h>

#include "libworker/device/rehearsal/memory.h"

/* Of the process, as the handler is. */
static struct rehearsal *watched;
static struct sigaction before;

static const char *access_of(const void *context)
{
#if defined(__x86_64__)
    /* Bit 1 of the page fault's error code: a write. Source: Intel SDM, volume 3, 4.7. */
    const ucontext_t *machine = context;
    return machine->uc_mcontext.gregs[REG_ERR] & 2 ? "writes" : "reads";
#else
    (void)context;
    return "touches";
#endif
}

static const struct flight *flight_at(const struct span *span, const char *address)
{
    for (int i = span->n_flights - 1; i >= 0; i--) {
        const struct flight *flight = &span->flights[i];
        if (span->at + flight->first <= address && address < span->at + flight->end)
            return flight;
    }
    return NULL;
}

static void report(const struct span *span, const char *address, const char *access)
{
    char text[SPAN_TEXT_MAX];
    span_text(span, address, text);
    const struct flight *flight = flight_at(span, address);
    if (watched->running && !flight)
        rehearsal_found(watched, "launch \"%s\" %s %s, which it did not declare",
                        watched->running->name, access, text);
    else if (flight)
        rehearsal_found(watched,
                        "host code %s %s, the %s of \"%s\" (%ju of queue %d), "
                        "before it has waited for it",
                        access, text, flight->fetch ? "target" : "source", flight->name,
                        (uintmax_t)flight->at, flight->queue);
    else
        rehearsal_found(watched, "host code %s %s, which only launches may touch", access, text);
}

static void on_fault(int signal_number, siginfo_t *info, void *context)
{
    const struct span *span = watched ? span_at(watched, info->si_addr) : NULL;
    if (!span) {
        (void)sigaction(signal_number, &before, NULL);
        return;
    }
    report(span, info->si_addr, access_of(context));
    (void)signal(signal_number, SIG_DFL);
}

bool fault_watch(struct rehearsal *rehearsal)
{
    if (watched)
        return false;
    watched = rehearsal;
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(SIGSEGV, &action, &before);
    return true;
}

void fault_unwatch(void)
{
    watched = NULL;
    (void)sigaction(SIGSEGV, &before, NULL);
}
