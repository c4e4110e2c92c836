/* Asserts that stay on in every build, release included: they state what must hold (insist) and
 * what must not (never). They guard against our own mistakes; what the world does wrong is returned
 * as an error. Prints one line to standard error and aborts.
 */
#ifndef BASE_ASSERT_H
#define BASE_ASSERT_H

#include <stdbool.h>

#define insist(condition)                                                                          \
    ((condition) ? (void)0 : insist_failed(#condition, __FILE__, __LINE__, __func__))
#define never(condition)                                                                           \
    ((condition) ? insist_failed("not " #condition, __FILE__, __LINE__, __func__) : (void)0)

/* If `a` holds, so must `b`: insist(implies(job->ended, job->workers == 0)). */
static inline bool implies(bool a, bool b)
{
    return !a || b;
}

_Noreturn void insist_failed(const char *condition, const char *file, int line,
                             const char *function);

#endif
