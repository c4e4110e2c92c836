#include "libworker/step/signal.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <unistd.h>

static volatile sig_atomic_t arrived;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int watchers;
static struct {
    int number;
    bool installed;
} watched[] = {{.number = SIGTERM}, {.number = SIGINT}};

enum { N_WATCHED = sizeof(watched) / sizeof(watched[0]) };

static void count(int number)
{
    static const char words[] = "\nstopping at the next step; Ctrl-C again ends it at once\n";
    int kept = errno;
    if (number == SIGINT) {
        (void)!write(STDERR_FILENO, words, sizeof(words) - 1);
        (void)signal(SIGINT, SIG_DFL);
    }
    arrived = arrived + 1;
    errno = kept;
}

/* True if the present handler is `handler`. */
static bool is_handled_by(int number, void (*handler)(int))
{
    struct sigaction now;
    return sigaction(number, NULL, &now) == 0 && !(now.sa_flags & SA_SIGINFO) &&
           now.sa_handler == handler;
}

void signal_watch(void)
{
    (void)pthread_mutex_lock(&lock);
    bool first = watchers++ == 0;
    for (int i = 0; i < N_WATCHED && first; i++) {
        struct sigaction mine = {.sa_handler = count, .sa_flags = SA_RESTART};
        (void)sigemptyset(&mine.sa_mask);
        watched[i].installed = is_handled_by(watched[i].number, SIG_DFL) &&
                               sigaction(watched[i].number, &mine, NULL) == 0;
    }
    (void)pthread_mutex_unlock(&lock);
}

void signal_unwatch(void)
{
    (void)pthread_mutex_lock(&lock);
    bool last = --watchers == 0;
    for (int i = 0; i < N_WATCHED && last; i++) {
        /* The program may have installed its own meanwhile. */
        if (watched[i].installed && is_handled_by(watched[i].number, count))
            (void)signal(watched[i].number, SIG_DFL);
        watched[i].installed = false;
    }
    (void)pthread_mutex_unlock(&lock);
}

int signal_count(void)
{
    return arrived;
}
