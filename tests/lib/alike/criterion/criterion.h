/* Criterion's names for machines without it, such as a bare one with a GPU: the tests of a program
 * run in one process, in the order of their lines. As many names as its tests need.
 *
 *     PROGRAM [TEST]
 *
 * prints "ok TEST" or what is not so; exit status 1 if something was not. An expectation that fails
 * lets its test go on, an assertion or a signal ends the program, with a sentence. One thread.
 */
#ifndef ALIKE_CRITERION_H
#define ALIKE_CRITERION_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct alike_test {
    const char *name;
    void (*run)(void);
    struct alike_test *next;
};

/* Where a condition stands. */
struct alike_place {
    const char *file;
    int line;
    const char *condition;
    bool ends; /* an assertion */
};

/* What main does, for programs with a main of their own, too. */
int alike_run(int argc, char **argv);

void alike_add(struct alike_test *test);
void alike_check(bool so, const struct alike_place *place, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#define Test(suite, title)                                                                         \
    static void suite##_##title(void);                                                             \
    __attribute__((constructor)) static void suite##_##title##_add(void)                           \
    {                                                                                              \
        static struct alike_test test = {#title, suite##_##title, NULL};                           \
        alike_add(&test);                                                                          \
    }                                                                                              \
    static void suite##_##title(void)

#define ALIKE(so, text, ends, ...)                                                                 \
    alike_check((so), &(const struct alike_place){__FILE__, __LINE__, text, ends}, " " __VA_ARGS__)

#define cr_expect(so, ...)           ALIKE(so, #so, false, __VA_ARGS__)
#define cr_expect_eq(x, y, ...)      ALIKE((x) == (y), #x " is " #y, false, __VA_ARGS__)
#define cr_expect_gt(x, y, ...)      ALIKE((x) > (y), #x " > " #y, false, __VA_ARGS__)
#define cr_expect_str_neq(x, y, ...) ALIKE(strcmp(x, y) != 0, #x " is not " #y, false, __VA_ARGS__)
#define cr_expect_float_eq(x, y, by, ...)                                                          \
    ALIKE((x) - (y) <= (by) && (y) - (x) <= (by), #x " is near " #y, false, __VA_ARGS__)
#define cr_assert(so, ...)          ALIKE(so, #so, true, __VA_ARGS__)
#define cr_assert_eq(x, y, ...)     ALIKE((x) == (y), #x " is " #y, true, __VA_ARGS__)
#define cr_assert_lt(x, y, ...)     ALIKE((x) < (y), #x " < " #y, true, __VA_ARGS__)
#define cr_assert_geq(x, y, ...)    ALIKE((x) >= (y), #x " >= " #y, true, __VA_ARGS__)
#define cr_assert_not_null(x, ...)  ALIKE((x) != NULL, #x " is there", true, __VA_ARGS__)
#define cr_assert_str_eq(x, y, ...) ALIKE(strcmp(x, y) == 0, #x " is " #y, true, __VA_ARGS__)

#endif
