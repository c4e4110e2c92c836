/* What an agent keeps of what its workers' programs say, and when the coordinator gets it. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "agent/figures.h"
#include "tests/unit/agent/story.h"

static bool mark(struct pace *pace, uint64_t step, double seconds, double waited)
{
    return pace_add(
        pace, &(struct pace_mark){.step = step, .seconds = seconds, .waited_seconds = waited});
}

Test(pace, a_duration_is_the_median_of_the_newest)
{
    struct pace pace = {.count = 0};
    struct pace_medians medians;
    pace_read(&pace, &medians);
    cr_expect_eq(medians.timed, 0);
    cr_expect_not(mark(&pace, 10, 100, 0), "of the first one no duration is known");
    cr_expect(mark(&pace, 11, 100.1, 0.02));
    cr_expect(mark(&pace, 12, 109.1, 0.04), "one hiccup");
    cr_expect(mark(&pace, 16, 109.5, 0.12), "four steps in one line");
    pace_read(&pace, &medians);
    cr_expect_eq(medians.timed, 3);
    cr_expect_float_eq(medians.step_ms, 100, 0.01);
    cr_expect_float_eq(medians.work_ms, 80, 0.01);
    for (int i = 1; i <= 2 * PACE_DURATIONS_MAX; i++)
        (void)mark(&pace, 16 + (uint64_t)i, 109.5 + i, NAN);
    pace_read(&pace, &medians);
    cr_expect_eq(medians.timed, PACE_DURATIONS_MAX);
    cr_expect_float_eq(medians.step_ms, 1000, 0.01, "the old ones are forgotten");
    cr_expect(isnan(medians.work_ms));
}

Test(pace, what_is_no_steps_time_makes_no_duration)
{
    struct pace pace = {.count = 0};
    (void)mark(&pace, 10, 1, 0);
    cr_expect_not(mark(&pace, 11, 1.01, 0), "too short to be measured");
    cr_expect(mark(&pace, 20, 1.2, 0), "it counts with the next");
    cr_expect_float_eq(pace.step_ms[0], 20, 0.01);
    struct pace_mark after_pause = {.step = 21, .seconds = 9, .fresh = true};
    cr_expect_not(pace_add(&pace, &after_pause));
    cr_expect_not(mark(&pace, 5, 10, 0), "another process of the worker begins again");
    cr_expect(mark(&pace, 6, 10.1, 0.2));
    cr_expect_float_eq(pace.step_ms[1], 100, 0.01);
    cr_expect_eq(pace.work_ms[1], 0, "it cannot wait for longer than the step took");
    cr_expect(mark(&pace, 7, INFINITY, NAN));
    cr_expect_not(mark(&pace, 8, INFINITY, NAN), "no number from infinities");
}

struct reports { /* an agent's core and its figures */
    struct story story;
    struct figures figures;
    struct arena arena;
    Muster__NodeReport last;
    struct worker_key key;
};

static void begin(struct reports *r)
{
    *r = (struct reports){.story = story_begin(), .key = KEY("j", 1)};
    story_join(&r->story);
    arena_init(&r->arena, 1 << 20);
}

static void end(struct reports *r)
{
    figures_fini(&r->figures);
    arena_fini(&r->arena);
    story_end(&r->story);
}

/* Figures in the next report. */
static size_t report(struct reports *r, int64_t now_ms)
{
    arena_fini(&r->arena);
    arena_init(&r->arena, 1 << 20);
    muster__node_report__init(&r->last);
    figures_fill(&r->figures, r->story.core, now_ms, &r->arena, &r->last);
    return r->last.n_figures;
}

static bool has(const Muster__WorkerFigures *worker, const char *name, double value)
{
    for (size_t i = 0; i < worker->n_numbers; i++)
        if (strcmp(worker->numbers[i]->key, name) == 0)
            return worker->numbers[i]->value == value;
    return false;
}

Test(figures, the_newest_values_go_when_they_change_and_seldom)
{
    struct reports r;
    begin(&r);
    cr_expect_eq(report(&r, 0), 0);
    figures_number(&r.figures, &r.key, "loss", 3);
    cr_assert_eq(report(&r, 1000), 1, "the first ones at once");
    figures_number(&r.figures, &r.key, "loss", 2);
    figures_number(&r.figures, &r.key, "loss", 1);
    cr_expect_eq(report(&r, 1000 + FIGURES_EVERY_MS - 1), 0);
    cr_assert_eq(report(&r, 1000 + FIGURES_EVERY_MS), 1);
    cr_expect_eq(r.last.figures[0]->n_numbers, 1);
    cr_expect(has(r.last.figures[0], "loss", 1));
    cr_expect_eq(report(&r, 100000), 0, "nothing has changed");
    figures_resend(&r.figures);
    cr_expect_eq(report(&r, 100000), 1, "the coordinator may not have it");
    figures_number(&r.figures, &r.key, "loss", 0.5);
    cr_expect_eq(report(&r, 100001), 0);
    happen(&r.story, ABOUT(EXITED, 1, .exit = &exit_0));
    cr_expect_eq(report(&r, 100001), 1, "the last ones of a worker that has ended do not wait");
    figures_forget(&r.figures, &r.key);
    figures_resend(&r.figures);
    cr_expect_eq(report(&r, 200000), 0);
    end(&r);
}

Test(figures, a_million_numbers_are_those_of_the_newest_64_names)
{
    struct reports r;
    char name[METRIC_NAME_MAX + 2] = "";
    begin(&r);
    for (int i = 0; i < 1000000; i++) {
        (void)snprintf(name, sizeof(name), "n%d", i % 1000);
        figures_number(&r.figures, &r.key, i % 2 ? "loss" : name, i);
    }
    memset(name, 'x', sizeof(name) - 1);
    figures_number(&r.figures, &r.key, name, 1);
    figures_number(&r.figures, &r.key, "no name", 1);
    figures_number(&r.figures, &r.key, "", 1);
    cr_assert_eq(report(&r, 0), 1);
    const Muster__WorkerFigures *worker = r.last.figures[0];
    cr_expect_eq(worker->n_numbers, FIGURES_NAMES_MAX);
    cr_expect(has(worker, "loss", 999999));
    cr_expect(has(worker, "n998", 999998));
    cr_expect(has(worker, "n874", 999874), "64 with the loss: n874 is the oldest of them");
    cr_expect_not(has(worker, "n872", 999872));
    cr_expect_eq(worker->timed, 0);
    end(&r);
}

Test(figures, times_are_told_with_what_is_known_of_waiting)
{
    struct reports r;
    begin(&r);
    for (uint64_t i = 0; i < 10; i++)
        figures_stepped(&r.figures, &r.key,
                        &(struct pace_mark){.step = i,
                                            .seconds = 0.2 * (double)i,
                                            .waited_seconds = 0.15 * (double)i});
    cr_assert_eq(report(&r, 0), 1);
    const Muster__WorkerFigures *worker = r.last.figures[0];
    cr_expect_eq(worker->timed, 9);
    cr_expect_float_eq(worker->step_ms, 200, 0.01);
    cr_expect_eq(worker->work_ms_known_case, MUSTER__WORKER_FIGURES__WORK_MS_KNOWN_WORK_MS);
    cr_expect_float_eq(worker->work_ms, 50, 0.01);
    cr_expect_str_eq(worker->job, "j");
    cr_expect_eq(worker->uid, 1);
    end(&r);
}
