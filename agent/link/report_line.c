#include "agent/link/report_line.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <string.h>

#include "common/base/limits.h"
#include "common/base/str.h"
#include "common/base/tree.h"

enum { DEPTH_MAX = 4, NODES_MAX = 2048 };

enum field_kind { FIELD_STEP, FIELD_COUNT, FIELD_SECONDS, FIELD_TEXT, FIELD_FLAG };

struct field {
    const char *name;
    enum field_kind kind;
    size_t offset;
    size_t present; /* offset of the flag that it was given; 0 = none */
    size_t max;     /* bytes of a text */
};

#define AT(member) offsetof(struct report_line, member)

static const struct field fields[] = {
    {"generation", FIELD_STEP, AT(generation), 0, 0},
    {"step", FIELD_STEP, AT(step), AT(has_step), 0},
    {"total_steps", FIELD_STEP, AT(total_steps), AT(has_total), 0},
    {"bytes", FIELD_COUNT, AT(bytes), 0, 0},
    {"protocol", FIELD_COUNT, AT(protocol), 0, 0},
    {"for_s", FIELD_SECONDS, AT(for_s), 0, 0},
    {"wait_s", FIELD_SECONDS, AT(wait_s), 0, 0},
    {"waited_s", FIELD_SECONDS, AT(waited_s), 0, 0},
    {"client", FIELD_TEXT, AT(client), 0, REPORT_TEXT_MAX},
    {"why", FIELD_TEXT, AT(why), 0, REPORT_TEXT_MAX},
    {"path", FIELD_TEXT, AT(path), 0, REPORT_PATH_MAX},
    {"key", FIELD_TEXT, AT(key), 0, REPORT_KEY_MAX},
    {"value", FIELD_TEXT, AT(value), 0, REPORT_VALUE_MAX},
    {"endpoint", FIELD_TEXT, AT(endpoint), 0, ENDPOINT_MAX},
    {"elastic", FIELD_FLAG, AT(elastic), 0, 0},
    {"pipe", FIELD_FLAG, AT(pipe), 0, 0},
};

/* Series that need no `metrics`. */
static const char *const numbers[] = {"loss", "lr", "tokens_per_second", "samples_per_second"};

static void *member_at(struct report_line *line, size_t offset)
{
    return (char *)line + offset;
}

static int read_count(const struct tree *node, uint64_t max, uint64_t *ret, struct error *err)
{
    int64_t value;
    int rc = tree_read_i64(node, &value, err);
    if (rc)
        return rc;
    if (value < 0 || (uint64_t)value > max)
        return tree_fail(node, err, "%s is from 0 to %" PRIu64, node->key, max);
    *ret = (uint64_t)value;
    return 0;
}

static int read_seconds(const struct tree *node, double *ret, struct error *err)
{
    double value;
    int rc = tree_read_f64(node, &value, err);
    if (rc)
        return rc;
    if (!(value >= 0 && value <= REPORT_SECONDS_MAX))
        return tree_fail(node, err, "%s is from 0 to %d seconds", node->key, REPORT_SECONDS_MAX);
    *ret = value;
    return 0;
}

static int read_text(const struct tree *node, size_t max, const char **ret, struct error *err)
{
    const char *value;
    int rc = tree_read_string(node, &value, err);
    if (rc)
        return rc;
    if (strlen(value) > max)
        return tree_fail(node, err, "%s has %zu bytes, at most %zu", node->key, strlen(value), max);
    *ret = value;
    return 0;
}

static int read_field(const struct field *field, const struct tree *node, struct report_line *ret,
                      struct error *err)
{
    void *at = member_at(ret, field->offset);
    if (field->present)
        *(bool *)member_at(ret, field->present) = true;
    switch (field->kind) {
    case FIELD_STEP:
        return read_count(node, STEP_MAX, at, err);
    case FIELD_COUNT:
        return read_count(node, INT64_MAX, at, err);
    case FIELD_SECONDS:
        return read_seconds(node, at, err);
    case FIELD_TEXT:
        return read_text(node, field->max, at, err);
    case FIELD_FLAG:
        return tree_read_bool(node, at, err);
    }
    return 0;
}

/* JSON has no NaN and no infinities: they are texts, as in proto3's JSON or Python's output. */
static int read_number(const struct tree *node, double *ret, struct error *err)
{
    static const struct {
        const char *text;
        double value;
    } words[] = {{"nan", NAN},        {"NaN", NAN},           {"inf", INFINITY},
                 {"-inf", -INFINITY}, {"Infinity", INFINITY}, {"-Infinity", -INFINITY}};
    for (size_t i = 0; node->kind == TREE_STRING && i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(node->string, words[i].text) == 0) {
            *ret = words[i].value;
            return 0;
        }
    return tree_read_f64(node, ret, err);
}

static int add_sample(const struct tree *node, struct report_line *ret, struct error *err)
{
    double value;
    if (!metric_name_valid(node->key))
        return tree_fail(node, err, "the name of a metric has 1 to %d of A-Z a-z 0-9 _ . / -",
                         METRIC_NAME_MAX);
    int rc = read_number(node, &value, err);
    if (rc)
        return rc;
    if (ret->samples_count == REPORT_SAMPLES_MAX)
        return tree_fail(node, err, "a line has at most %d numbers", REPORT_SAMPLES_MAX);
    ret->samples[ret->samples_count++] = (struct report_sample){node->key, value};
    return 0;
}

static int read_metrics(const struct tree *map, struct report_line *ret, struct error *err)
{
    const struct tree *node;
    if (map->kind != TREE_MAP)
        return tree_fail(map, err, "metrics is a map of names and numbers");
    tree_each(node, map) {
        int rc = add_sample(node, ret, err);
        if (rc)
            return rc;
    }
    return 0;
}

static int read_ranks(const struct tree *list, struct report_line *ret, struct error *err)
{
    const struct tree *node;
    if (list->kind != TREE_LIST || list->count > REPORT_RANKS_MAX)
        return tree_fail(list, err, "ranks is a list of at most %d", REPORT_RANKS_MAX);
    tree_each(node, list) {
        int64_t rank;
        int rc = tree_read_i64(node, &rank, err);
        if (rc)
            return rc;
        if (rank < 0 || rank > UINT32_MAX)
            return tree_fail(node, err, "a rank is from 0 to %u", UINT32_MAX);
        ret->ranks[ret->ranks_count++] = (uint32_t)rank;
    }
    return 0;
}

static int read_phase(const struct tree *node, struct report_line *ret, struct error *err)
{
    static const char *const names[] = {
        [REPORT_BEGIN] = "begin", [REPORT_WHOLE] = "whole", [REPORT_FAILED] = "failed"};
    for (size_t i = 0; node->kind == TREE_STRING && i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(node->string, names[i]) == 0) {
            ret->phase = (enum report_phase)i;
            return 0;
        }
    return tree_fail(node, err, "state is begin, whole or failed");
}

/* Signals that a program has for itself and that end no process of one that handles them. */
static int read_signal(const struct tree *node, struct report_line *ret, struct error *err)
{
    static const struct {
        const char *name;
        int number;
    } signals[] = {{"USR1", SIGUSR1}, {"USR2", SIGUSR2}, {"QUIT", SIGQUIT}, {"PROF", SIGPROF}};
    const char *name = node->kind == TREE_STRING ? node->string : "";
    if (str_starts(name, "SIG"))
        name += 3;
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        if (strcmp(name, signals[i].name) == 0) {
            ret->signal = signals[i].number;
            return 0;
        }
    return tree_fail(node, err, "signal is USR1, USR2, QUIT or PROF");
}

static int read_members(const struct tree *map, struct report_line *ret, struct error *err)
{
    const struct tree *node;
    int rc = 0;
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]) && !rc; i++)
        if ((node = tree_get(map, fields[i].name)) && node->kind != TREE_NULL)
            rc = read_field(&fields[i], node, ret, err);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]) && !rc; i++)
        if ((node = tree_get(map, numbers[i])) && node->kind != TREE_NULL)
            rc = add_sample(node, ret, err);
    if (!rc && (node = tree_get(map, "metrics")))
        rc = read_metrics(node, ret, err);
    if (!rc && (node = tree_get(map, "ranks")))
        rc = read_ranks(node, ret, err);
    if (!rc && (node = tree_get(map, "state")) && ret->kind == REPORT_CHECKPOINT)
        rc = read_phase(node, ret, err);
    if (!rc && (node = tree_get(map, "signal")))
        rc = read_signal(node, ret, err);
    return rc;
}

static int lacks(const struct report_line *line, const char *member, struct error *err)
{
    return error_set(err, E_INVALID_ARGUMENT, "%s needs %s", report_kind_name(line->kind), member);
}

static int check_members(const struct report_line *line, struct error *err)
{
    switch (line->kind) {
    case REPORT_STEP:
        return line->has_step ? 0 : lacks(line, "step", err);
    case REPORT_METRIC:
        return line->samples_count ? 0 : lacks(line, "metrics", err);
    case REPORT_CHECKPOINT:
        return line->path[0] || line->phase == REPORT_FAILED ? 0 : lacks(line, "path", err);
    case REPORT_PUT:
    case REPORT_GET:
        return line->key[0] ? 0 : lacks(line, "key", err);
    case REPORT_STACKS:
        return line->signal ? 0 : lacks(line, "signal", err);
    case REPORT_JOIN:
    case REPORT_LOST:
        return line->generation ? 0 : lacks(line, "generation", err);
    case REPORT_HELLO:
    case REPORT_PAUSE:
    case REPORT_LATEST:
    case REPORT_SHOULD_STOP:
    case REPORT_DONE:
    case REPORT_KINDS_COUNT:
        break;
    }
    return 0;
}

const char *report_kind_name(enum report_kind kind)
{
    static const char *const names[] = {
#define X(upper, lower) [REPORT_##upper] = #lower,
        REPORT_KINDS(X)
#undef X
    };
    return kind < REPORT_KINDS_COUNT ? names[kind] : "?";
}

static int read_kind(const struct tree *map, struct report_line *ret, struct error *err)
{
    const struct tree *node = tree_get(map, "do");
    if (!node || node->kind != TREE_STRING)
        return error_set(err, E_INVALID_ARGUMENT, "a line needs \"do\", a text");
    for (int kind = 0; kind < REPORT_KINDS_COUNT; kind++)
        if (strcmp(node->string, report_kind_name(kind)) == 0) {
            ret->kind = kind;
            return 0;
        }
    return tree_fail(node, err, "there is no \"do\": \"%.40s\"", node->string);
}

int report_line_parse(const char *text, size_t size, struct arena *arena, struct report_line *ret,
                      struct error *err)
{
    struct tree_input input = {
        .text = text,
        .size = size,
        .limits = {.bytes = size + 1, .depth = DEPTH_MAX, .nodes = NODES_MAX}};
    struct tree *map;
    uint64_t id = 0;
    *ret = (struct report_line){.phase = REPORT_WHOLE,
                                .waited_s = NAN,
                                .client = "",
                                .why = "",
                                .path = "",
                                .key = "",
                                .value = "",
                                .endpoint = ""};
    int rc = tree_parse_json(&input, arena, &map, err);
    if (rc)
        return rc;
    if (map->kind != TREE_MAP)
        return error_set(err, E_INVALID_ARGUMENT, "a line is one JSON object");
    const struct tree *node = tree_get(map, "id");
    if (node && (rc = read_count(node, STEP_MAX, &id, err)))
        return rc;
    ret->has_id = node;
    ret->id = node ? (int64_t)id : 0;
    rc = read_kind(map, ret, err);
    if (!rc)
        rc = read_members(map, ret, err);
    return rc ? rc : check_members(ret, err);
}

int64_t report_line_asks(const char *text, size_t size)
{
    const char *end = text + size, *at = memmem(text, size, "\"id\"", 4);
    int64_t id = -1;
    for (at = at ? at + 4 : end; at < end && (*at == ' ' || *at == ':'); at++)
        ;
    for (int digits = 0; at < end && *at >= '0' && *at <= '9' && digits < 16; at++, digits++)
        id = (id < 0 ? 0 : id) * 10 + (*at - '0');
    return id;
}

bool report_line_steps(const char *text, size_t size)
{
    return memmem(text, size, "\"step\"", 6);
}
