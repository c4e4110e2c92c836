/* For tests that must be plain executables, because Criterion's forks do not run under the thread
 * sanitizer: CHECK ends the program with the place and the condition, check_all runs named cases in
 * order, or the one named on the command line. A case that cannot run here calls check_skip and
 * returns: it counts as skipped. tools/test.py counts the lines that begin with "ok" and "SKIPPED".
 */
#ifndef LIB_CHECK_H
#define LIB_CHECK_H

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Of what never ends: beside other work a test may take ten times as long. */
enum { CHECK_LIMIT_S = 600 };

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

struct check_case {
    const char *name;
    void (*run)(void);
};

#define CHECK_CASE(function)                                                                       \
    {                                                                                              \
#function, function                                                                        \
    }

static const char *check_why; /* the running case was skipped; NULL: it was not */

/* Say why the running case cannot run here; the case returns after this. */
static inline void check_skip(const char *why)
{
    check_why = why;
}

/* `cases` end with a NULL name; returns main's exit status. */
static inline int check_all(const struct check_case *cases, int argc, char **argv)
{
    int ran = 0;
    alarm(CHECK_LIMIT_S);
    for (; cases->name; cases++) {
        if (argc > 1 && strcmp(argv[1], cases->name) != 0)
            continue;
        check_why = NULL;
        cases->run();
        if (check_why)
            printf("SKIPPED: %s: %s\n", cases->name, check_why);
        else
            printf("ok %s\n", cases->name);
        fflush(stdout);
        ran++;
    }
    return ran ? 0 : 2;
}

#endif
