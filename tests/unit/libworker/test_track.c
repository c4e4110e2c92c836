#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libworker/track/track.h"
#include "tests/lib/tmpdir.h"

Test(track, metrics_are_json_lines)
{
    struct tmpdir dir = tmpdir_make();
    struct track track;
    struct track_options options = {.path = tmpdir_path(&dir, "log.jsonl")};
    char line[256];
    cr_assert_eq(track_init(&track, &options, 0, NULL), 0);
    cr_assert_eq(track_metric(&track, 3, "loss", 2.5), 0);
    cr_assert_eq(track_metric(&track, 4, "odd \"name\"", NAN), 0);
    track_fini(&track);
    FILE *file = fopen(tmpdir_path(&dir, "log.jsonl"), "r");
    cr_assert_not_null(fgets(line, sizeof(line), file));
    cr_assert(strstr(line, "\"step\":3,\"name\":\"loss\",\"value\":2.5}\n"), "%s", line);
    cr_assert_not_null(fgets(line, sizeof(line), file));
    cr_assert(strstr(line, "\"odd \\\"name\\\"\",\"value\":\"NaN\"}\n"), "%s", line);
    fclose(file);
    tmpdir_remove(&dir);
}

Test(track, progress_counts_tokens_between_lines)
{
    struct track track;
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    struct track_options options = {.path = "", .progress = out, .every = 2};
    cr_assert_eq(track_init(&track, &options, 1000, NULL), 0);
    struct track_step step = {.step = 1, .total_steps = 4, .loss = 2, .rate = 0.01, .tokens = 500};
    step.now_ms = 1500;
    cr_assert_lt(track_progress(&track, &step), 0);
    step.step = 2;
    step.now_ms = 3000;
    double rate = track_progress(&track, &step);
    cr_assert_float_eq(rate, 500, 1e-9);
    fclose(out);
    cr_assert_str_eq(text, "step 2/4  loss 2.0000  rate 0.01  500 tokens/s\n");
    free(text);
    track_fini(&track);
}
