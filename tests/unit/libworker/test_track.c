#include <criterion/criterion.h>
#include <fcntl.h>
#include <glob.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libworker/track/profile.h"
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

/* Opened to be read, a pipe whose reader is there waits for a writer. */
Test(track, files_may_be_pipes)
{
    struct tmpdir dir = tmpdir_make();
    struct track track;
    struct profile profile;
    char text[256] = "";
    struct track_options options = {.csv = tmpdir_path(&dir, "pipe")};
    cr_assert_eq(mkfifo(options.csv, 0600), 0);
    int reader = open(options.csv, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    cr_assert_geq(reader, 0);
    cr_assert_eq(track_init(&track, &options, 0, NULL), 0);
    track_fini(&track);
    cr_assert_gt(read(reader, text, sizeof(text) - 1), 0);
    cr_assert_str_eq(text, "step,time,name,value\n");
    profile_init(&profile);
    cr_assert_eq(profile_trace(&profile, options.csv, 3, false, NULL), 0);
    profile_end_trace(&profile);
    cr_assert_gt(read(reader, text, sizeof(text) - 1), 0);
    cr_assert_eq(text[0], '[');
    close(reader);
    tmpdir_remove(&dir);
}

static const int64_t MS = 1000000; /* ns */

Test(track, progress_counts_tokens_between_lines)
{
    struct track track;
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    struct track_options options = {.path = "", .progress = out, .every = 2};
    cr_assert_eq(track_init(&track, &options, 1000 * MS, NULL), 0);
    struct track_step step = {.step = 1, .total_steps = 4, .loss = 2, .rate = 0.01, .tokens = 500};
    step.now_ns = 1500 * MS;
    cr_assert_lt(track_progress(&track, &step), 0);
    step.step = 2;
    step.now_ns = 3000 * MS;
    double rate = track_progress(&track, &step);
    cr_assert_float_eq(rate, 500, 1e-9);
    step.step = 4;
    step.loss = NAN;
    step.of_samples = true;
    step.now_ns = 4000 * MS;
    (void)track_progress(&track, &step);
    fclose(out);
    cr_assert_str_eq(text, "step 2/4  loss 2.0000  rate 0.01  500 tokens/s\n"
                           "step 4/4  no loss set  rate 0.01  500 samples/s\n");
    free(text);
    track_fini(&track);
}

/* Steps of a third of a millisecond, some of which begin and end within one. */
Test(track, tokens_of_fast_steps_are_counted_by_their_time)
{
    struct track track;
    struct track_options options = {.path = "", .every = 1};
    cr_assert_eq(track_init(&track, &options, 5 * MS, NULL), 0);
    struct track_step step = {.tokens = 384};
    for (step.step = 1; step.step <= 9; step.step++) {
        step.now_ns = 5 * MS + step.step * MS / 3;
        cr_expect_float_eq(track_progress(&track, &step), 384 * 3000, 10, "step %d",
                           (int)step.step);
    }
    track_fini(&track);
}

/* Bit by bit, from the polynomial: not the code under test. */
static uint32_t plain_masked_crc(const unsigned char *bytes, size_t size)
{
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < size; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? (crc >> 1) ^ 0x82f63b78u : crc >> 1;
    }
    crc = ~crc;
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

static size_t next_record(FILE *file, unsigned char ret[512])
{
    uint64_t size;
    uint32_t crc;
    if (fread(&size, 8, 1, file) != 1)
        return 0;
    cr_assert_eq(fread(&crc, 4, 1, file), 1);
    cr_assert_eq(crc, plain_masked_crc((unsigned char *)&size, 8));
    cr_assert(size > 0 && size < 512);
    cr_assert_eq(fread(ret, size, 1, file), 1);
    cr_assert_eq(fread(&crc, 4, 1, file), 1);
    cr_assert_eq(crc, plain_masked_crc(ret, size));
    return size;
}

Test(track, event_files_are_tensorboards)
{
    struct tmpdir dir = tmpdir_make();
    struct track track;
    struct track_options options = {.path = "", .events = tmpdir_path(&dir, "events")};
    unsigned char record[512];
    cr_assert_eq(track_init(&track, &options, 0, NULL), 0);
    cr_assert_eq(track_metric(&track, 300, "loss", 2.5), 0);
    track_fini(&track);
    glob_t found;
    cr_assert_eq(glob(tmpdir_path(&dir, "events/events.out.tfevents.*"), 0, NULL, &found), 0);
    FILE *file = fopen(found.gl_pathv[0], "r");
    /* wall_time (9 bytes), then file_version = 3, length-delimited. */
    cr_assert_eq(next_record(file, record), 9 + 2 + 13);
    cr_assert_eq(memcmp(record + 9,
                        "\x1a\x0d"
                        "brain.Event:2",
                        15),
                 0);
    /* step 300; summary { value { tag "loss", simple_value 2.5f } } */
    size_t size = next_record(file, record);
    static const char expected[] = "\x10\xac\x02\x2a\x0d\x0a\x0b\x0a\x04"
                                   "loss\x15\x00\x00\x20\x40";
    cr_assert_eq(size, 9 + sizeof(expected) - 1);
    cr_assert_eq(memcmp(record + 9, expected, sizeof(expected) - 1), 0);
    cr_assert_eq(next_record(file, record), 0);
    fclose(file);
    globfree(&found);
    tmpdir_remove(&dir);
}

Test(track, csv_has_one_header_however_often_it_is_opened)
{
    struct tmpdir dir = tmpdir_make();
    char line[256];
    for (int round = 0; round < 2; round++) {
        struct track track;
        struct track_options options = {.path = "", .csv = tmpdir_path(&dir, "log.csv")};
        cr_assert_eq(track_init(&track, &options, 0, NULL), 0);
        cr_assert_eq(track_metric(&track, round + 1, "loss", 2.5), 0);
        track_fini(&track);
    }
    FILE *file = fopen(tmpdir_path(&dir, "log.csv"), "r");
    cr_assert_str_eq(fgets(line, sizeof(line), file), "step,time,name,value\n");
    cr_assert(fgets(line, sizeof(line), file) && strncmp(line, "1,", 2) == 0);
    cr_assert(strstr(line, ",loss,2.5\n"));
    cr_assert(fgets(line, sizeof(line), file) && strncmp(line, "2,", 2) == 0);
    fclose(file);
    tmpdir_remove(&dir);
}

static double number_of(const json_t *event, const char *key)
{
    return json_number_value(json_object_get(event, key));
}

/* Three steps with nested phases; what the profile says must be what the trace says. */
Test(track, phases_add_up_to_the_step_and_the_trace_is_json)
{
    enum { STEPS = 3, EVENTS = 1 + 4 * STEPS };
    struct tmpdir dir = tmpdir_make();
    struct profile profile;
    struct profile_means means;
    profile_init(&profile);
    cr_assert_eq(profile_trace(&profile, tmpdir_path(&dir, "trace.json"), 3, false, NULL), 0);
    for (int step = 1; step <= STEPS; step++) {
        profile_begin(&profile, PROFILE_DATA);
        profile_end(&profile);
        profile_begin(&profile, PROFILE_BACKWARD);
        profile_begin(&profile, PROFILE_EXPOSED);
        usleep(2000);
        profile_end(&profile);
        profile_end(&profile);
        profile_step(&profile, step + 1);
    }
    profile_take(&profile, &means);
    profile_fini(&profile);

    json_t *trace = json_load_file(tmpdir_path(&dir, "trace.json"), 0, NULL);
    cr_assert_eq(json_array_size(trace), EVENTS);
    double exposed = 0, backward = 0, steps = 0, end = 0;
    for (size_t i = 1; i < EVENTS; i++) {
        const json_t *event = json_array_get(trace, i);
        const char *name = json_string_value(json_object_get(event, "name"));
        double begun = number_of(event, "ts"), took = number_of(event, "dur");
        cr_assert_str_eq(json_string_value(json_object_get(event, "ph")), "X");
        cr_assert_eq(number_of(event, "pid"), 3);
        cr_assert_eq(number_of(json_object_get(event, "args"), "step"), (double)(1 + (i - 1) / 4));
        exposed += strcmp(name, "exposed_communication") == 0 ? took : 0;
        backward += strcmp(name, "backward") == 0 ? took : 0;
        if (strcmp(name, "step") != 0)
            continue;
        cr_assert(steps == 0 || fabs(begun - end) < 0.01, "steps follow each other");
        end = begun + took;
        steps += took;
    }
    json_decref(trace);
    double micro = 1e6 * STEPS;
    cr_assert_geq(exposed, 3 * 2000);
    cr_assert_float_eq(means.phase[PROFILE_EXPOSED] * micro, exposed, 0.01);
    cr_assert_float_eq(means.phase[PROFILE_BACKWARD] * micro, backward - exposed, 0.01);
    cr_assert_float_eq(means.step * micro, steps, 0.01);
    double sum = means.other;
    for (int i = 0; i < PROFILE_COUNT; i++)
        sum += means.phase[i];
    cr_assert_float_eq(sum, means.step, 1e-9);
    cr_assert_geq(means.other, 0);
    tmpdir_remove(&dir);
}

Test(track, a_profile_that_was_taken_starts_at_nothing)
{
    struct profile profile;
    struct profile_means means;
    profile_init(&profile);
    profile_begin(&profile, PROFILE_DATA);
    usleep(1000);
    profile_end(&profile);
    profile_take(&profile, &means);
    cr_assert_eq(means.phase[PROFILE_DATA], 0, "the step is not over");
    profile_step(&profile, 2);
    profile_take(&profile, &means);
    cr_assert_gt(means.phase[PROFILE_DATA], 0);
    profile_take(&profile, &means);
    cr_assert(means.phase[PROFILE_DATA] == 0 && means.step == 0 && means.other == 0);
    profile_fini(&profile);
}

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    fputs(text, file);
    fclose(file);
}

static char *read_text(const char *path)
{
    static char text[1 << 16];
    FILE *file = fopen(path, "r");
    cr_assert_not_null(file);
    text[fread(text, 1, sizeof(text) - 1, file)] = 0;
    fclose(file);
    return text;
}

/* What a killed process leaves, its last line included, stays as it is. */
Test(track, files_of_another_process_go_on_behind_its_last_line)
{
    struct tmpdir dir = tmpdir_make();
    struct track track;
    struct track_options none = {.path = ""}, files = {.path = tmpdir_path(&dir, "log.jsonl"),
                                                       .csv = tmpdir_path(&dir, "log.csv"),
                                                       .events = tmpdir_path(&dir, "events")};
    write_text(files.path, "{\"step\":1}\n{\"step\":2,\"na");
    write_text(files.csv, "step,time,name,value\n1,now,loss,2\n");
    cr_assert_eq(track_init(&track, &none, 0, NULL), 0);
    cr_assert_eq(track_metric(&track, 2, "loss", 1), 0);
    cr_assert_eq(track_open(&track, &files, 0, NULL), 0);
    cr_assert_eq(track_metric(&track, 3, "loss", 4), 0);
    track_close(&track);
    cr_assert_eq(track_metric(&track, 4, "loss", 8), 0);
    track_fini(&track);
    const char *text = read_text(files.path);
    cr_assert(strstr(text, "{\"step\":1}\n{\"step\":2,\"na\n{\"time\"") == text, "%s", text);
    cr_assert(strstr(text, "\"step\":3,") && !strstr(text, "\"step\":4,"), "%s", text);
    text = read_text(files.csv);
    cr_assert(strstr(text, "step,time,name,value\n1,now,loss,2\n3,2") == text, "%s", text);
    tmpdir_remove(&dir);
}

static void one_step(struct profile *profile, int64_t next)
{
    profile_begin(profile, PROFILE_DATA);
    profile_end(profile);
    profile_step(profile, next);
}

/* Of the process that wrote it the trace holds all whole steps, cut wherever it was killed. */
Test(track, a_trace_goes_on_wherever_its_writer_was_cut_off)
{
    struct tmpdir dir = tmpdir_make();
    const char *path = tmpdir_path(&dir, "trace.json");
    struct profile profile;
    profile_init(&profile);
    cr_assert_eq(profile_trace(&profile, path, 0, true, NULL), 0, "there is none yet");
    one_step(&profile, 2);
    one_step(&profile, 3);
    char *killed = strdup(read_text(path)); /* what is on disk without the end */
    profile_fini(&profile);
    char *whole = strdup(read_text(path));
    size_t first = strlen("[\n{\"name\":\"process_name\"");
    for (size_t size = first; size <= strlen(whole); size += 3) {
        char cut[1 << 12];
        snprintf(cut, sizeof(cut), "%.*s", (int)size, whole);
        write_text(path, cut);
        profile_init(&profile);
        cr_assert_eq(profile_trace(&profile, path, 0, true, NULL), 0);
        one_step(&profile, 4);
        profile_fini(&profile);
        json_t *trace = json_load_file(path, 0, NULL);
        cr_assert(json_array_size(trace) >= 3, "cut at %zu: %s", size, read_text(path));
        if (size >= strlen(killed))
            cr_assert_eq(json_array_size(trace), 1 + 4 + 1 + 2, "cut at %zu", size);
        json_decref(trace);
    }
    cr_assert(strlen(killed) > 400, "each step is on disk when it ends");
    free(killed);
    free(whole);
    tmpdir_remove(&dir);
}
