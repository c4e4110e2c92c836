/* libyaml's events into a tree; the only user of yaml.h. What YAML 1.1 guesses (yes, 1:30, 0777 as
 * octal) is not guessed: scalars resolve by the core schema of YAML 1.2, section 10.3. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "common/base/parse.h"
#include "common/base/str.h"
#include "common/base/tree_parse.h"
#include "common/base/tree_yaml.h"

struct yaml {
    struct tree_parse parse;
    const char *key; /* already read; its value follows */
    int key_line, key_column;
    int documents;
};

static bool one_of(const char *text, const char *const *words)
{
    for (; *words; words++)
        if (strcmp(text, *words) == 0)
            return true;
    return false;
}

/* "0x1f" and "0o17"; E_INVALID_ARGUMENT if the text is neither. */
static int based_integer(const char *text, int64_t *ret)
{
    unsigned base = str_starts(text, "0x") ? 16 : str_starts(text, "0o") ? 8 : 0;
    uint64_t value = 0;
    if (base == 0 || text[2] == '\0')
        return E_INVALID_ARGUMENT;
    for (const char *p = text + 2; *p; p++) {
        unsigned digit = *p >= '0' && *p <= '9'                 ? (unsigned)(*p - '0')
                         : (*p | 32) >= 'a' && (*p | 32) <= 'f' ? (unsigned)((*p | 32) - 'a') + 10
                                                                : 99;
        if (digit >= base)
            return E_INVALID_ARGUMENT;
        if (value > (uint64_t)INT64_MAX / base)
            return E_OUT_OF_RANGE;
        value = value * base + digit;
    }
    if (value > INT64_MAX)
        return E_OUT_OF_RANGE;
    *ret = (int64_t)value;
    return 0;
}

static bool special_number(const char *text, double *ret)
{
    static const char *const nan_words[] = {".nan", ".NaN", ".NAN", NULL};
    static const char *const inf_words[] = {".inf", ".Inf", ".INF", NULL};
    bool negative = *text == '-';
    if (one_of(text, nan_words)) {
        *ret = NAN;
        return true;
    }
    if (!one_of(text + (*text == '-' || *text == '+'), inf_words))
        return false;
    *ret = negative ? -INFINITY : INFINITY;
    return true;
}

int tree_yaml_resolve(const char *text, struct tree *value)
{
    static const char *const null_words[] = {"", "~", "null", "Null", "NULL", NULL};
    static const char *const true_words[] = {"true", "True", "TRUE", NULL};
    static const char *const false_words[] = {"false", "False", "FALSE", NULL};
    value->kind = TREE_NULL;
    if (one_of(text, null_words))
        return 0;
    value->kind = TREE_BOOL;
    value->boolean = one_of(text, true_words);
    if (value->boolean || one_of(text, false_words))
        return 0;
    value->kind = TREE_INTEGER;
    int rc = parse_i64(text, INT64_MIN, INT64_MAX, &value->integer, NULL);
    if (rc == E_INVALID_ARGUMENT)
        rc = based_integer(text, &value->integer);
    if (rc != E_INVALID_ARGUMENT)
        return rc;
    value->kind = TREE_NUMBER;
    rc = special_number(text, &value->number) ? 0 : parse_f64(text, &value->number, NULL);
    if (rc != E_INVALID_ARGUMENT)
        return rc;
    value->kind = TREE_STRING;
    value->string = text;
    return 0;
}

static int place_line(const yaml_event_t *event)
{
    return (int)event->start_mark.line + 1;
}

static int place_column(const yaml_event_t *event)
{
    return (int)event->start_mark.column + 1;
}

static int fail_at(const struct yaml *yaml, const yaml_event_t *event, const char *sentence)
{
    return tree_parse_fail(&yaml->parse, place_line(event), place_column(event), "%s", sentence);
}

/* Whether the next node is the key of a map entry. */
static bool wants_key(const struct yaml *yaml)
{
    return yaml->parse.in && yaml->parse.in->kind == TREE_MAP && !yaml->key;
}

static int add_value(struct yaml *yaml, const yaml_event_t *event, struct tree *value)
{
    value->key = yaml->key;
    value->line = yaml->key ? yaml->key_line : place_line(event);
    value->column = yaml->key ? yaml->key_column : place_column(event);
    yaml->key = NULL;
    return tree_parse_add(&yaml->parse, value);
}

static int on_key(struct yaml *yaml, const yaml_event_t *event, const char *text)
{
    bool plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    if (plain && !*text)
        return fail_at(yaml, event, "a key is missing before ':'");
    if (plain && strcmp(text, "<<") == 0)
        return fail_at(yaml, event, "merge keys ('<<') are not supported");
    yaml->key = text;
    yaml->key_line = place_line(event);
    yaml->key_column = place_column(event);
    return 0;
}

static int on_scalar(struct yaml *yaml, const yaml_event_t *event)
{
    const char *raw = (const char *)event->data.scalar.value;
    size_t length = event->data.scalar.length;
    if (memchr(raw, '\0', length))
        return fail_at(yaml, event, "NUL characters are not allowed");
    char *text = arena_strndup(yaml->parse.arena, raw, length);
    if (!text)
        return tree_parse_out_of_memory(&yaml->parse);
    if (wants_key(yaml))
        return on_key(yaml, event, text);
    struct tree value = {.kind = TREE_STRING, .string = text};
    if (event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && tree_yaml_resolve(text, &value)) {
        int rc = tree_parse_fail(&yaml->parse, place_line(event), place_column(event),
                                 "%.40s does not fit a 64-bit number", text);
        error_hint(yaml->parse.err, "put it in quotes if it is a text");
        return rc;
    }
    return add_value(yaml, event, &value);
}

static int on_container(struct yaml *yaml, const yaml_event_t *event, enum tree_kind kind)
{
    struct tree value = {.kind = kind};
    if (wants_key(yaml))
        return fail_at(yaml, event, "a key must be a word, not a list or a map");
    return add_value(yaml, event, &value);
}

static int refuse_extras(const struct yaml *yaml, const yaml_event_t *event, const void *anchor,
                         const void *tag)
{
    if (anchor)
        return fail_at(yaml, event, "anchors ('&name') are not supported");
    if (tag)
        return fail_at(yaml, event, "tags ('!type') are not supported");
    return 0;
}

static int on_event(struct yaml *yaml, const yaml_event_t *event)
{
    int rc;
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (++yaml->documents > 1)
            return fail_at(yaml, event, "only one document is read, and here a second one starts");
        return 0;
    case YAML_ALIAS_EVENT:
        return fail_at(yaml, event, "aliases ('*name') are not supported");
    case YAML_SCALAR_EVENT:
        rc = refuse_extras(yaml, event, event->data.scalar.anchor, event->data.scalar.tag);
        if (rc)
            return rc;
        return on_scalar(yaml, event);
    case YAML_SEQUENCE_START_EVENT:
        rc = refuse_extras(yaml, event, event->data.sequence_start.anchor,
                           event->data.sequence_start.tag);
        if (rc)
            return rc;
        return on_container(yaml, event, TREE_LIST);
    case YAML_MAPPING_START_EVENT:
        rc = refuse_extras(yaml, event, event->data.mapping_start.anchor,
                           event->data.mapping_start.tag);
        if (rc)
            return rc;
        return on_container(yaml, event, TREE_MAP);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        return tree_parse_close(&yaml->parse);
    case YAML_NO_EVENT:
    case YAML_STREAM_START_EVENT:
    case YAML_STREAM_END_EVENT:
    case YAML_DOCUMENT_END_EVENT:
        return 0;
    }
    return 0;
}

static int scanner_error(const struct yaml *yaml, const yaml_parser_t *parser)
{
    if (parser->error == YAML_MEMORY_ERROR)
        return tree_parse_out_of_memory(&yaml->parse);
    const char *problem = parser->problem ? parser->problem : "cannot be read as YAML";
    int rc = tree_parse_fail(&yaml->parse, (int)parser->problem_mark.line + 1,
                             (int)parser->problem_mark.column + 1, "%s%s%s", problem,
                             parser->context ? " " : "", parser->context ? parser->context : "");
    if (strstr(problem, "cannot start any token"))
        error_hint(yaml->parse.err, "indent with spaces; quote values that start with @, ` or %%");
    return rc;
}

int tree_parse_yaml(const struct tree_input *input, struct arena *arena, struct tree **ret,
                    struct error *err)
{
    struct yaml yaml = {0};
    yaml_parser_t parser;
    bool end = false;
    int rc = tree_parse_init(&yaml.parse, input, arena, err);
    if (rc)
        return rc;
    if (!yaml_parser_initialize(&parser))
        return tree_parse_out_of_memory(&yaml.parse);
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    input = yaml.parse.input;
    yaml_parser_set_input_string(&parser, (const unsigned char *)input->text, input->size);
    while (!rc && !end) {
        yaml_event_t event;
        if (!yaml_parser_parse(&parser, &event)) {
            rc = scanner_error(&yaml, &parser);
            break;
        }
        rc = on_event(&yaml, &event);
        end = event.type == YAML_STREAM_END_EVENT;
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    if (!rc && !yaml.parse.root) {
        struct tree nothing = {.kind = TREE_NULL, .line = 1, .column = 1};
        rc = tree_parse_add(&yaml.parse, &nothing);
    }
    if (!rc)
        *ret = yaml.parse.root;
    return rc;
}
