/* The line below a followed job: what it says at each width, and how long the job will take. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <criterion/criterion.h>

#include "cli/progress_bar.h"
#include "common/base/str.h"

static struct progress progress_at(uint64_t step, uint64_t total)
{
    struct progress progress = {.word = "running",
                                .runs = true,
                                .step_known = true,
                                .generation = 1,
                                .step = step,
                                .total_steps = total,
                                .loss = "2.1000",
                                .rate = "12.3k",
                                .world = 2};
    snprintf(progress.steps, sizeof(progress.steps), "%" PRIu64 "/%" PRIu64, step, total);
    return progress;
}

static void hear_step(struct progress_bar *bar, uint64_t step, int64_t now_ms)
{
    struct progress progress = progress_at(step, 1000);
    progress_bar_hear(bar, &progress, now_ms);
}

Test(progress_bar, a_line_never_reaches_the_last_column)
{
    struct progress_bar bar = {.out = NULL};
    char line[PROGRESS_LINE_MAX];
    hear_step(&bar, 100, 1000);
    hear_step(&bar, 200, 2000);
    for (int columns = 1; columns < 300; columns++) {
        progress_bar_text(&bar, columns, 2000, line);
        cr_expect_lt(utf8_columns(line), (size_t)columns, "%d: %s", columns, line);
    }
}

Test(progress_bar, a_narrow_one_lacks_the_last_facts_first_and_then_the_bar)
{
    static const struct {
        int columns;
        const char *line;
    } rows[] = {
        {100, "█████░░░░░░░░░░░░░░░░░░░ running  step 200/1000  8s left  loss 2.1000  12.3k tok/s  "
              "world 2"},
        {80, "██░░░░░░░░░░ running  step 200/1000  8s left  loss 2.1000  12.3k tok/s  world 2"},
        {70, "██░░░░░░░░░ running  step 200/1000  8s left  loss 2.1000  12.3k tok/s"},
        {60, "███░░░░░░░░░░░ running  step 200/1000  8s left  loss 2.1000"},
        {40, "███░░░░░░░░░░░░░ running  step 200/1000"},
        {28, "running  step 200/1000"},
        {20, "██░░░░░░░░░ running"},
        {10, "running"},
        {4, ""},
    };
    struct progress_bar bar = {.out = NULL};
    char line[PROGRESS_LINE_MAX];
    hear_step(&bar, 100, 1000);
    hear_step(&bar, 200, 2000);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        progress_bar_text(&bar, rows[i].columns, 2000, line);
        cr_expect_str_eq(line, rows[i].line, "%d: '%s'", rows[i].columns, line);
    }
}

Test(progress_bar, what_is_not_known_is_not_in_the_line)
{
    struct progress_bar bar = {.out = NULL};
    struct progress progress = {.word = "queued"};
    char line[PROGRESS_LINE_MAX];
    progress_bar_hear(&bar, &progress, 0);
    progress_bar_text(&bar, 80, 0, line);
    cr_expect_str_eq(line, "queued");
    progress = (struct progress){
        .word = "running", .runs = true, .step_known = true, .step = 7, .steps = "7", .world = 1};
    progress_bar_hear(&bar, &progress, 0);
    progress_bar_text(&bar, 80, 0, line);
    cr_expect_str_eq(line, "running  step 7  world 1");
}

Test(progress_bar, without_tokens_the_rate_is_that_of_steps)
{
    struct progress_bar bar = {.out = NULL};
    struct progress progress = progress_at(100, 1000);
    char line[PROGRESS_LINE_MAX];
    progress.rate[0] = '\0';
    progress_bar_hear(&bar, &progress, 1000);
    progress.step = 115;
    progress_bar_hear(&bar, &progress, 2000);
    progress_bar_text(&bar, 120, 2000, line);
    cr_expect(strstr(line, "59s left  loss 2.1000  15 steps/s  world 2"), "%s", line);
    bar.count = 0;
    progress_bar_hear(&bar, &progress, 2000);
    progress.step = 116;
    progress_bar_hear(&bar, &progress, 5400);
    progress_bar_text(&bar, 120, 5400, line);
    cr_expect(strstr(line, "loss 2.1000  3.4 s/step  world 2"), "%s", line);
}

Test(progress_bar, the_time_left_is_of_the_newest_steps)
{
    struct progress_bar bar = {.out = NULL};
    hear_step(&bar, 100, 1000);
    cr_expect_eq(progress_bar_left_ms(&bar, 1000), -1);
    for (int i = 1; i <= PROGRESS_MARKS; i++)
        hear_step(&bar, 100 + (uint64_t)i * 10, 1000 + i * 1000); /* 0.1 s a step */
    cr_expect_eq(progress_bar_left_ms(&bar, 17000), 74000);
    for (int i = 1; i < PROGRESS_MARKS; i++)
        hear_step(&bar, 260 + (uint64_t)i, 17000 + i * 1000); /* then a second */
    cr_expect_eq(progress_bar_left_ms(&bar, 32000), 725000);
}

Test(progress_bar, between_slow_steps_the_time_left_runs_down_and_is_unknown_after_a_long_silence)
{
    struct progress_bar bar = {.out = NULL};
    hear_step(&bar, 1, 0);
    hear_step(&bar, 2, 60000);
    for (int i = 0; i <= 100; i++)
        hear_step(&bar, 2, 60000 + i * 1000);
    cr_expect_eq(progress_bar_left_ms(&bar, 160000), 998 * 60000 - 100000);
    cr_expect_eq(progress_bar_left_ms(&bar, 60000 + 4 * 60000 + 4000), -1);
}

Test(progress_bar, a_rate_ends_with_its_generation_and_where_steps_go_back)
{
    struct progress_bar bar = {.out = NULL};
    struct progress next = progress_at(300, 1000), stalled = progress_at(400, 1000);
    hear_step(&bar, 100, 1000);
    hear_step(&bar, 200, 2000);
    cr_expect_eq(progress_bar_left_ms(&bar, 2000), 8000);
    hear_step(&bar, 150, 3000);
    cr_expect_eq(progress_bar_left_ms(&bar, 3000), -1);
    hear_step(&bar, 250, 4000);
    cr_expect_eq(progress_bar_left_ms(&bar, 4000), 7500);
    next.generation = 2;
    progress_bar_hear(&bar, &next, 5000);
    cr_expect_eq(progress_bar_left_ms(&bar, 5000), -1);
    next.step = 1000;
    progress_bar_hear(&bar, &next, 6000);
    cr_expect_eq(progress_bar_left_ms(&bar, 6000), 0);
    stalled.runs = false;
    progress_bar_hear(&bar, &stalled, 7000);
    cr_expect_eq(progress_bar_left_ms(&bar, 7000), -1);
}
