/* Asserts for every build, release included: insist states what must be true, never what must be
 * false. They guard against our own mistakes; failures of the world are returned as errors. Prints
 * one line to standard error and aborts. */
#ifndef BASE_ASSERT_H
#define BASE_ASSERT_H

#include <stdbool.h>

#define insist(condition)                                                                          \
    ((condition) ? (void)0 : insist_failed(#condition, __FILE__, __LINE__, __func__))
#define never(condition)                                                                           \
    ((condition) ? insist_failed("not " #condition, __FILE__, __LINE__, __func__) : (void)0)

/* If `a` is true, so must be `b`: insist(implies(job->ended, job->workers == 0)). */
static inline bool implies(bool a, bool b)
{
    return !a || b;
}

_Noreturn void insist_failed(const char *condition, const char *file, int line,
                             const char *function);

#endif
