/* SIGTERM as a request to stop. A signal handler has no argument, so what it tells is the one thing
 * in libworker that belongs to the process: a count. Contexts compare it with the count they began
 * with. The handler stands only where the program left the default, and goes with the last context.
 */
#include <pthread.h>
#include <signal.h>

#include "libworker/step/context.h"

static volatile sig_atomic_t arrived;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int watchers;
static bool installed;

static void count(int number)
{
    (void)number;
    arrived = arrived + 1;
}

void signal_watch(void)
{
    (void)pthread_mutex_lock(&lock);
    struct sigaction now;
    if (watchers++ == 0 && sigaction(SIGTERM, NULL, &now) == 0 && !(now.sa_flags & SA_SIGINFO) &&
        now.sa_handler == SIG_DFL) {
        struct sigaction mine = {.sa_handler = count, .sa_flags = SA_RESTART};
        (void)sigemptyset(&mine.sa_mask);
        installed = sigaction(SIGTERM, &mine, NULL) == 0;
    }
    (void)pthread_mutex_unlock(&lock);
}

void signal_unwatch(void)
{
    (void)pthread_mutex_lock(&lock);
    struct sigaction now;
    if (--watchers == 0 && installed) {
        struct sigaction fallback = {.sa_handler = SIG_DFL};
        (void)sigemptyset(&fallback.sa_mask);
        /* The program may have brought its own meanwhile. */
        if (sigaction(SIGTERM, NULL, &now) == 0 && !(now.sa_flags & SA_SIGINFO) &&
            now.sa_handler == count)
            (void)sigaction(SIGTERM, &fallback, NULL);
        installed = false;
    }
    (void)pthread_mutex_unlock(&lock);
}

int signal_count(void)
{
    return arrived;
}
