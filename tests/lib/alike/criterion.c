#include "tests/lib/alike/criterion/criterion.h"

#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

enum { SHOWN_MAX = 20 }; /* failures of a test whose sentences are printed */

static struct alike_test *first, **end = &first;
static int failures; /* of the running test */

void alike_add(struct alike_test *test)
{
    *end = test;
    end = &test->next;
}

void alike_check(bool so, const struct alike_place *place, const char *fmt, ...)
{
    if (so)
        return;
    if (failures++ < SHOWN_MAX || place->ends) {
        va_list arguments;
        va_start(arguments, fmt);
        fprintf(stderr, "%s:%d: not so: %s:", place->file, place->line, place->condition);
        (void)vfprintf(stderr, fmt, arguments);
        fputc('\n', stderr);
        va_end(arguments);
    }
    if (place->ends)
        exit(1);
}

/* A test that ends its program in this way says so, as its name was not printed yet. */
static void say_signal(int number)
{
    static const char text[] = "not so: the test runs to its end: a signal ended it\n";
    (void)number;
    (void)!write(STDERR_FILENO, text, sizeof(text) - 1);
    _exit(1);
}

/* Those that nobody else takes: sanitizers say more. */
static void take_signals(void)
{
    static const int numbers[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        struct sigaction before, ours = {.sa_handler = say_signal};
        if (!sigaction(numbers[i], NULL, &before) && before.sa_handler == SIG_DFL)
            (void)sigaction(numbers[i], &ours, NULL);
    }
}

/* NAME, or -NAME for all but that one. */
static bool is_chosen(const char *name, const char *choice)
{
    if (!choice)
        return true;
    return choice[0] == '-' ? strcmp(choice + 1, name) != 0 : strcmp(choice, name) == 0;
}

int alike_run(int argc, char **argv)
{
    int ran = 0, failed = 0;
    take_signals();
    for (struct alike_test *test = first; test; test = test->next) {
        if (!is_chosen(test->name, argc > 1 ? argv[1] : NULL))
            continue;
        failures = 0;
        test->run();
        if (failures)
            printf("FAILED %s, %d times\n", test->name, failures);
        else
            printf("ok %s\n", test->name);
        (void)fflush(stdout);
        failed += failures != 0;
        ran++;
    }
    if (!ran)
        fprintf(stderr, "there is no test %s\n", argc > 1 ? argv[1] : "");
    return failed ? 1 : ran ? 0 : 2;
}
