#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>

#include "libworker/device/cpu.h"
#include "libworker/parallel/step_numbers.h"
#include "libworker/parallel/usage.h"

enum { N_PARAMS = 3 };

static struct step_numbers made(void)
{
    struct step_numbers numbers;
    struct queue *queue = NULL;
    struct error err = {0};
    cr_assert_eq(cpu_open(&queue, &err), 0, "%s", err.text);
    cr_assert_eq(step_numbers_init(&numbers, N_PARAMS, queue, &err), 0, "%s", err.text);
    return numbers;
}

static void end(struct step_numbers *numbers)
{
    struct queue *queue = numbers->verdict.queue;
    step_numbers_fini(numbers);
    cpu_close(queue);
}

Test(step_numbers, the_callers_and_the_usage_of_parameters_do_not_overlap)
{
    struct step_numbers numbers = made();
    float said[STEP_NUMBERS_MAX], *used = step_numbers_used(&numbers);
    for (int i = 0; i < STEP_NUMBERS_MAX; i++)
        said[i] = (float)(i + 1);
    for (size_t i = 0; i < usage_room(N_PARAMS); i++)
        used[i] = -(float)(i + 1);
    step_numbers_say(&numbers, said, STEP_NUMBERS_MAX);
    for (int i = 0; i < STEP_NUMBERS_MAX; i++)
        cr_expect_eq(numbers.data[i], said[i]);
    for (size_t i = 0; i < usage_room(N_PARAMS); i++)
        cr_expect_eq(used[i], -(float)(i + 1));
    cr_expect_eq(numbers.count, STEP_NUMBERS_MAX + usage_room(N_PARAMS), "all are summed");
    end(&numbers);
}

Test(step_numbers, are_zeros_after_clear)
{
    struct step_numbers numbers = made();
    for (size_t i = 0; i < numbers.count; i++)
        numbers.data[i] = 1;
    step_numbers_clear(&numbers);
    for (size_t i = 0; i < numbers.count; i++)
        cr_expect_eq(numbers.data[i], 0, "number %zu", i);
    end(&numbers);
}

Test(step_numbers, zeroed_memory_may_be_cleared_and_freed)
{
    struct step_numbers numbers = {0};
    step_numbers_clear(&numbers);
    step_numbers_fini(&numbers);
    cr_assert_eq(step_numbers_wait(&numbers), 0);
}

Test(step_numbers, more_than_fit_end_the_process, .signal = SIGABRT)
{
    struct step_numbers numbers = made();
    float said[STEP_NUMBERS_MAX + 1] = {0};
    (void)!freopen("/dev/null", "w", stderr);
    step_numbers_say(&numbers, said, STEP_NUMBERS_MAX + 1);
}
