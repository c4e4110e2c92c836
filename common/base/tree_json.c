/* A strict RFC 8259 reader. Written here because people need the line and column of a wrong value,
 * which the usual JSON libraries forget. No recursion: the open containers are the tree's own
 * parent links. */
#include <stdint.h>
#include <string.h>

#include "common/base/parse.h"
#include "common/base/str.h"
#include "common/base/tree_parse.h"

struct json {
    struct tree_parse parse;
    const char *at, *end;
    int line, column;
};

static char peek(const struct json *json)
{
    return json->at < json->end ? *json->at : '\0'; /* the text itself contains no NUL */
}

static void advance(struct json *json, size_t bytes)
{
    for (; bytes; bytes--, json->at++) {
        if (*json->at == '\n') {
            json->line++;
            json->column = 1;
        } else if (!utf8_continues(*json->at)) {
            json->column++;
        }
    }
}

static void skip_space(struct json *json)
{
    while (peek(json) == ' ' || peek(json) == '\t' || peek(json) == '\n' || peek(json) == '\r')
        advance(json, 1);
}

static int fail_here(const struct json *json, const char *expected)
{
    if (json->at == json->end)
        return tree_parse_fail(&json->parse, json->line, json->column,
                               "the text ends where %s should be", expected);
    size_t length = utf8_decode(json->at, (size_t)(json->end - json->at), NULL);
    return tree_parse_fail(&json->parse, json->line, json->column, "expected %s, found '%.*s'",
                           expected, (int)length, json->at);
}

static int hex4(const char *at, const char *end, uint32_t *ret)
{
    uint32_t value = 0;
    if (end - at < 4)
        return E_INVALID_ARGUMENT;
    for (int i = 0; i < 4; i++) {
        char c = at[i];
        uint32_t digit;
        if (c >= '0' && c <= '9')
            digit = (uint32_t)(c - '0');
        else if ((c | 32) >= 'a' && (c | 32) <= 'f')
            digit = (uint32_t)((c | 32) - 'a') + 10;
        else
            return E_INVALID_ARGUMENT;
        value = value << 4 | digit;
    }
    *ret = value;
    return 0;
}

/* The code point of "\uXXXX" or a surrogate pair at `at`; bytes used, 0 if it names none. */
static size_t unicode_escape(const char *at, const char *end, uint32_t *ret)
{
    uint32_t high, low;
    if (hex4(at + 2, end, &high))
        return 0;
    *ret = high;
    if (high < 0xd800 || high > 0xdfff)
        return 6;
    if (high > 0xdbff || end - at < 12 || at[6] != '\\' || at[7] != 'u')
        return 0;
    if (hex4(at + 8, end, &low) || low < 0xdc00 || low > 0xdfff)
        return 0;
    *ret = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
    return 12;
}

/* One escape at json->at; writes its bytes and moves on. */
static int read_escape(struct json *json, char **out)
{
    static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    char letter = json->end - json->at > 1 ? json->at[1] : '\0';
    const char *found = letter ? strchr(letters, letter) : NULL;
    if (found) {
        *(*out)++ = meanings[found - letters];
        advance(json, 2);
        return 0;
    }
    uint32_t code_point = 0;
    size_t used = letter == 'u' ? unicode_escape(json->at, json->end, &code_point) : 0;
    if (used == 0)
        return tree_parse_fail(&json->parse, json->line, json->column,
                               "a backslash that starts no escape");
    if (code_point == 0)
        return tree_parse_fail(&json->parse, json->line, json->column,
                               "NUL characters are not allowed");
    *out += utf8_encode(code_point, *out);
    advance(json, used);
    return 0;
}

/* Bytes at `at` that stand for themselves and are a character each. */
static size_t plain_run(const char *at, const char *end)
{
    const char *start = at;
    while (at < end && *at >= ' ' && *at < 0x7f && *at != '"' && *at != '\\')
        at++;
    return (size_t)(at - start);
}

/* Escapes never grow: six characters become at most three bytes, twelve at most four. */
static int read_string(struct json *json, const char **ret)
{
    const char *close = json->at + 1;
    while (close < json->end && *close != '"')
        close += *close == '\\' && json->end - close > 1 ? 2 : 1;
    char *text = arena_alloc(json->parse.arena, (size_t)(close - json->at));
    char *out = text;
    if (!text)
        return tree_parse_out_of_memory(&json->parse);
    advance(json, 1);
    while (peek(json) != '"') {
        int rc = 0;
        size_t run = plain_run(json->at, json->end);
        if (run > 0) {
            memcpy(out, json->at, run);
            out += run;
            json->at += run;
            json->column += (int)run;
            continue;
        }
        if (json->at == json->end)
            return fail_here(json, "the end of a string");
        if ((unsigned char)*json->at < ' ')
            return tree_parse_fail(&json->parse, json->line, json->column,
                                   "a control character in a string must be escaped");
        if (*json->at == '\\') {
            rc = read_escape(json, &out);
        } else {
            *out++ = *json->at;
            advance(json, 1);
        }
        if (rc)
            return rc;
    }
    advance(json, 1);
    *out = '\0';
    *ret = text;
    return 0;
}

static size_t digits(const char *at, const char *end)
{
    const char *start = at;
    while (at < end && *at >= '0' && *at <= '9')
        at++;
    return (size_t)(at - start);
}

/* Length of a number by the grammar of RFC 8259 section 6; 0 if it breaks it. */
static size_t number_length(const char *start, const char *end, bool *ret_integer)
{
    const char *at = start + (*start == '-');
    size_t n = digits(at, end);
    if (n == 0 || (n > 1 && *at == '0'))
        return 0;
    at += n;
    *ret_integer = true;
    if (at < end && *at == '.') {
        *ret_integer = false;
        n = digits(at + 1, end);
        if (n == 0)
            return 0;
        at += 1 + n;
    }
    if (at < end && (*at == 'e' || *at == 'E')) {
        *ret_integer = false;
        at++;
        if (at < end && (*at == '+' || *at == '-'))
            at++;
        n = digits(at, end);
        if (n == 0)
            return 0;
        at += n;
    }
    return (size_t)(at - start);
}

static int read_number(struct json *json, struct tree *value)
{
    bool integer;
    size_t length = number_length(json->at, json->end, &integer);
    if (length == 0)
        return tree_parse_fail(&json->parse, json->line, json->column, "not a number");
    char *text = arena_strndup(json->parse.arena, json->at, length);
    if (!text)
        return tree_parse_out_of_memory(&json->parse);
    int rc = integer ? parse_i64(text, INT64_MIN, INT64_MAX, &value->integer, NULL)
                     : parse_f64(text, &value->number, NULL);
    if (rc)
        return tree_parse_fail(&json->parse, json->line, json->column,
                               "%.40s does not fit a 64-bit %s", text,
                               integer ? "integer" : "number");
    value->kind = integer ? TREE_INTEGER : TREE_NUMBER;
    advance(json, length);
    return 0;
}

static bool read_word(struct json *json, const char *word)
{
    size_t length = strlen(word);
    if ((size_t)(json->end - json->at) < length || memcmp(json->at, word, length) != 0)
        return false;
    advance(json, length);
    return true;
}

/* A scalar, or the opening bracket of a container. */
static int read_value(struct json *json, struct tree *value)
{
    char c = peek(json);
    if (c == '"') {
        value->kind = TREE_STRING;
        return read_string(json, &value->string);
    }
    if (c == '-' || (c >= '0' && c <= '9'))
        return read_number(json, value);
    if (c == '{' || c == '[') {
        value->kind = c == '{' ? TREE_MAP : TREE_LIST;
        advance(json, 1);
        return 0;
    }
    value->kind = TREE_BOOL;
    if (read_word(json, "true")) {
        value->boolean = true;
        return 0;
    }
    if (read_word(json, "false"))
        return 0;
    value->kind = TREE_NULL;
    return read_word(json, "null") ? 0 : fail_here(json, "a value");
}

static int read_key(struct json *json, struct tree *value)
{
    skip_space(json);
    if (peek(json) != '"')
        return fail_here(json, "a key in double quotes");
    value->line = json->line;
    value->column = json->column;
    int rc = read_string(json, &value->key);
    if (rc)
        return rc;
    skip_space(json);
    if (peek(json) != ':')
        return fail_here(json, "':'");
    advance(json, 1);
    return 0;
}

/* After a value: close containers that end here, then report whether another value follows. */
static int read_separators(struct json *json, bool *ret_more)
{
    struct tree_parse *parse = &json->parse;
    while (parse->in) {
        bool map = parse->in->kind == TREE_MAP;
        skip_space(json);
        if (peek(json) == ',') {
            advance(json, 1);
            *ret_more = true;
            return 0;
        }
        if (peek(json) != (map ? '}' : ']'))
            return fail_here(json, map ? "',' or '}'" : "',' or ']'");
        advance(json, 1);
        int rc = tree_parse_close(parse);
        if (rc)
            return rc;
    }
    *ret_more = false;
    return 0;
}

/* A value with its key; if it opens a container that is not empty, its first value follows. */
static int read_entry(struct json *json, bool *ret_more)
{
    struct tree value = {0};
    int rc = 0;
    if (json->parse.in && json->parse.in->kind == TREE_MAP)
        rc = read_key(json, &value);
    if (rc)
        return rc;
    skip_space(json);
    if (!value.line) {
        value.line = json->line;
        value.column = json->column;
    }
    rc = read_value(json, &value);
    if (!rc)
        rc = tree_parse_add(&json->parse, &value);
    if (rc)
        return rc;
    if (value.kind == TREE_MAP || value.kind == TREE_LIST) {
        skip_space(json);
        if (peek(json) != (value.kind == TREE_MAP ? '}' : ']')) {
            *ret_more = true;
            return 0;
        }
    }
    return read_separators(json, ret_more);
}

int tree_parse_json(const struct tree_input *input, struct arena *arena, struct tree **ret,
                    struct error *err)
{
    struct json json = {.line = 1, .column = 1};
    bool more = true;
    int rc = tree_parse_init(&json.parse, input, arena, err);
    if (!rc) {
        json.at = json.parse.input->text;
        json.end = json.at + json.parse.input->size;
    }
    while (!rc && more)
        rc = read_entry(&json, &more);
    if (rc)
        return rc;
    skip_space(&json);
    if (json.at != json.end)
        return fail_here(&json, "the end of the text");
    *ret = json.parse.root;
    return 0;
}
