/* A line of a program that reports: whatever it is, it is refused with a sentence or all that was
 * read of it is within its limits. */
#include <stdlib.h>
#include <string.h>

#include "agent/link/report_line.h"
#include "common/base/assert.h"
#include "common/base/limits.h"
#include "common/base/str.h"
#include "tests/fuzz/fuzz.h"

static void check_text(const char *text, size_t max)
{
    insist(text && strlen(text) <= max && utf8_valid(text, strlen(text)));
}

static void check_line(const struct report_line *line)
{
    insist(line->kind < REPORT_KINDS_COUNT);
    insist(line->step <= STEP_MAX && line->total_steps <= STEP_MAX && line->generation <= STEP_MAX);
    insist(line->for_s >= 0 && line->for_s <= REPORT_SECONDS_MAX);
    insist(line->wait_s >= 0 && line->wait_s <= REPORT_SECONDS_MAX);
    insist(line->samples_count >= 0 && line->samples_count <= REPORT_SAMPLES_MAX);
    insist(line->ranks_count >= 0 && line->ranks_count <= REPORT_RANKS_MAX);
    insist(line->phase <= REPORT_FAILED);
    check_text(line->client, REPORT_TEXT_MAX);
    check_text(line->why, REPORT_TEXT_MAX);
    check_text(line->path, REPORT_PATH_MAX);
    check_text(line->key, REPORT_KEY_MAX);
    check_text(line->value, REPORT_VALUE_MAX);
    check_text(line->endpoint, ENDPOINT_MAX);
    for (int i = 0; i < line->samples_count; i++)
        check_text(line->samples[i].name, METRIC_NAME_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    struct arena arena = {0};
    struct error err = {0};
    struct report_line line;
    insist(text);
    memcpy(text, data, size);
    text[size] = '\0';
    int64_t id = report_line_asks(text, size);
    insist(id >= -1);
    (void)report_line_steps(text, size);
    int rc = report_line_parse(text, size, &arena, &line, &err);
    insist(rc == err.code && (!rc || err.text[0]));
    insist(!line.has_id || (line.id >= 0 && (uint64_t)line.id <= STEP_MAX));
    if (!rc)
        check_line(&line);
    arena_fini(&arena);
    free(text);
    return 0;
}
