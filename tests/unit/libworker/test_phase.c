#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libworker/step/phase.h"

static const enum step_phase phases[] = {STEP_BOUNDARY, STEP_UNDER_WAY, STEP_BROKEN, STEP_VOID};
enum { N_PHASES = sizeof(phases) / sizeof(phases[0]) };

/* The arrows of phase.h's drawing, written down a second time: [from] has the letter of each `to`.
 */
static const char *const drawn[] = {
    [STEP_BOUNDARY] = "BUXV",
    [STEP_UNDER_WAY] = "BX",
    [STEP_BROKEN] = "B",
    [STEP_VOID] = "B",
};
static const char letters[] = {'B', 'U', 'X', 'V'};

static bool is_drawn(enum step_phase from, enum step_phase to)
{
    for (const char *at = drawn[from]; *at; at++)
        if (*at == letters[to])
            return true;
    return false;
}

/* Whether a process that makes the move ends with an assertion. */
static bool aborts(enum step_phase from, enum step_phase to)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        (void)!freopen("/dev/null", "w", stderr);
        (void)signal(SIGABRT, SIG_DFL);
        enum step_phase phase = from;
        phase_set(&phase, to);
        _exit(phase == to ? 0 : 1);
    }
    cr_assert(child > 0 && waitpid(child, &status, 0) == child);
    cr_assert(WIFSIGNALED(status) ? WTERMSIG(status) == SIGABRT : status == 0);
    return WIFSIGNALED(status);
}

Test(phase, moves_that_the_drawing_lacks_end_the_process_and_no_others)
{
    for (int from = 0; from < N_PHASES; from++)
        for (int to = 0; to < N_PHASES; to++)
            cr_expect(aborts(phases[from], phases[to]) != is_drawn(phases[from], phases[to]),
                      "from %d to %d", from, to);
}

Test(phase, calls_have_no_effect_in_a_broken_generation_and_on_old_data)
{
    cr_assert(phase_rests(STEP_BROKEN) && phase_rests(STEP_VOID));
    cr_assert(!phase_rests(STEP_BOUNDARY) && !phase_rests(STEP_UNDER_WAY));
}
