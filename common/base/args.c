#include "common/base/args.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/args_table.h"
#include "common/base/assert.h"
#include "common/base/meant.h"
#include "common/base/parse.h"
#include "common/base/str.h"

struct args_value {
    const struct args_option *option;
    const char *text; /* of a flag: "" for --name, NULL for --no-name */
};

struct parser {
    const struct args_command *command;
    struct args *args;
    struct error *err;
    char *const *words;
    int count, at;
    size_t positionals; /* rows filled so far */
    bool only_words;    /* after "--" */
};

static const struct args_option *row_by_name(const struct args_command *command, struct str name)
{
    for (const struct args_option *row = command->options; row->name; row++)
        if (str_equal(str_of(row->name), name))
            return row;
    return NULL;
}

static const struct args_option *row_by_letter(const struct args_command *command, char letter)
{
    for (const struct args_option *row = command->options; row->name; row++)
        if (row->letter == letter && letter)
            return row;
    return NULL;
}

static const struct args_option *positional_row(const struct args_command *command, size_t index)
{
    for (const struct args_option *row = command->options; row->name; row++)
        if (args_is_positional(row) && index-- == 0)
            return row;
    return NULL;
}

__attribute__((format(printf, 2, 3))) static int usage_error(const struct parser *parser,
                                                             const char *fmt, ...)
{
    char sentence[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(sentence, sizeof(sentence), fmt, ap);
    va_end(ap);
    error_set(parser->err, E_INVALID_ARGUMENT, "%s: %s", parser->command->program, sentence);
    error_hint(parser->err, "see '%s --help'", parser->command->program);
    return E_INVALID_ARGUMENT;
}

static int unknown_option(const struct parser *parser, const char *word)
{
    const char *names[ARGS_OPTIONS_MAX + 2];
    size_t count = 0;
    char bare[STR_DISTANCE_LENGTH_MAX + 1];
    const char *name = word + strspn(word, "-");
    str_copy(bare, sizeof(bare), name);
    bare[strcspn(bare, "=")] = '\0';
    names[count++] = "help";
    for (const struct args_option *row = parser->command->options; row->name; row++)
        if (!args_is_positional(row))
            names[count++] = row->name;
    names[count] = NULL;
    int rc = usage_error(parser, "unknown option %.100s", word);
    const char *nearest = str_nearest(bare, names);
    if (nearest)
        error_hint(parser->err, "did you mean --%s?", nearest);
    return rc;
}

static int check_type(const struct args_option *row, const char *text, struct error *err)
{
    int64_t integer;
    uint64_t bytes;
    double number;
    bool bounded = row->min != row->max;
    switch (row->type) {
    case ARGS_TEXT:
        return 0;
    case ARGS_INTEGER:
        return parse_i64(text, bounded ? row->min : INT64_MIN, bounded ? row->max : INT64_MAX,
                         &integer, err);
    case ARGS_NUMBER:
        return parse_f64(text, &number, err);
    case ARGS_DURATION:
        return parse_duration(text, &integer, err);
    case ARGS_BYTES:
        return parse_bytes(text, &bytes, err);
    }
    return 0;
}

static int check_choice(const struct args_option *row, const char *text, struct error *err)
{
    struct buf list = {.max_bytes = 200};
    if (!row->choices)
        return 0;
    for (const char *const *choice = row->choices; *choice; choice++) {
        if (strcmp(*choice, text) == 0) {
            buf_fini(&list);
            return 0;
        }
        buf_printf(&list, "%s%s", list.size ? ", " : "", *choice);
    }
    error_set(err, E_INVALID_ARGUMENT, "'%.40s' is none of %s", text, buf_cstr(&list));
    buf_fini(&list);
    (void)meant_hint(err, text, row->choices);
    return E_INVALID_ARGUMENT;
}

static int add_value(const struct parser *parser, const struct args_option *row, const char *text)
{
    struct args *args = parser->args;
    if (row->kind != ARGS_FLAG) {
        int rc = check_type(row, text, parser->err);
        if (!rc)
            rc = check_choice(row, text, parser->err);
        if (rc) {
            error_wrap(parser->err, "%s: %s%s", parser->command->program,
                       args_is_positional(row) ? "" : "--", row->name);
            return error_recode(parser->err, E_INVALID_ARGUMENT);
        }
    }
    if (args->count == ARGS_VALUES_MAX)
        return usage_error(parser, "too many options at %.100s", row->name);
    args->values[args->count++] = (struct args_value){row, text};
    return 0;
}

/* The value of an option that has none in its own word. */
static int next_word(struct parser *parser, const struct args_option *row, const char **ret)
{
    if (parser->at == parser->count)
        return usage_error(parser, "--%.100s needs a value", row->name);
    *ret = parser->words[parser->at++];
    return 0;
}

static int read_long(struct parser *parser, const char *word)
{
    const char *equals = strchr(word, '=');
    struct str name = str_of(word + 2);
    const char *text = "";
    if (equals)
        name.size = (size_t)(equals - word) - 2;
    const struct args_option *row = row_by_name(parser->command, name);
    if (!row && !equals && str_starts(word, "--no-")) {
        row = row_by_name(parser->command, str_of(word + 5));
        if (row && row->kind == ARGS_FLAG)
            return add_value(parser, row, NULL);
        row = NULL;
    }
    if (!row || args_is_positional(row))
        return unknown_option(parser, word);
    if (row->kind == ARGS_FLAG)
        return equals ? usage_error(parser, "--%.100s does not accept a value", row->name)
                      : add_value(parser, row, text);
    if (equals)
        return add_value(parser, row, equals + 1);
    int rc = next_word(parser, row, &text);
    if (rc)
        return rc;
    return add_value(parser, row, text);
}

/* "-abc" is three flags; "-n5" and "-n 5" are a value. */
static int read_letters(struct parser *parser, const char *word)
{
    for (const char *letter = word + 1; *letter; letter++) {
        const struct args_option *row = row_by_letter(parser->command, *letter);
        const char *text = letter + 1;
        int rc = 0;
        if (!row || args_is_positional(row))
            return usage_error(parser, "unknown option %.100s", word);
        if (row->kind != ARGS_FLAG && !*text)
            rc = next_word(parser, row, &text);
        if (!rc)
            rc = add_value(parser, row, row->kind == ARGS_FLAG ? "" : text);
        if (rc || row->kind != ARGS_FLAG)
            return rc;
    }
    return 0;
}

static int read_positional(struct parser *parser, const char *word)
{
    const struct args_option *row = positional_row(parser->command, parser->positionals);
    struct args *args = parser->args;
    if (!row)
        return usage_error(parser, "'%.100s' is one word too many", word);
    int rc = add_value(parser, row, word);
    if (rc || row->kind == ARGS_POSITIONAL) {
        parser->positionals++;
        return rc;
    }
    args->words[args->word_count++] = word;
    if (row->kind == ARGS_COMMAND && !(row->is_file && !parser->only_words && row->is_file(word)))
        while (parser->at < parser->count)
            args->words[args->word_count++] = parser->words[parser->at++];
    return 0;
}

static int read_word(struct parser *parser)
{
    const char *word = parser->words[parser->at++];
    if (parser->only_words || word[0] != '-' || word[1] == '\0')
        return read_positional(parser, word);
    if (strcmp(word, "--") == 0) {
        parser->only_words = true;
        return 0;
    }
    if (strcmp(word, "--help") == 0 ||
        (strcmp(word, "-h") == 0 && !row_by_letter(parser->command, 'h'))) {
        parser->args->help = true;
        return 0;
    }
    return word[1] == '-' ? read_long(parser, word) : read_letters(parser, word);
}

static int check_required(const struct parser *parser)
{
    for (const struct args_option *row = parser->command->options; row->name; row++) {
        if (!row->required || args_given(parser->args, row->name))
            continue;
        if (!args_is_positional(row))
            return usage_error(parser, "--%.100s is required", row->name);
        char space[ARGS_VALUE_NAME_BYTES];
        return usage_error(parser, "%.100s is missing", args_value_name(row, space));
    }
    return 0;
}

int args_parse(const struct args_command *command, int argc, char *const *argv, struct args *ret,
               struct error *err)
{
    struct args args = {.command = command};
    struct parser parser = {
        .command = command, .args = &args, .err = err, .words = argv, .count = argc};
    int rc = 0;
    size_t rows = 0;
    while (command->options[rows].name)
        rows++;
    insist(rows <= ARGS_OPTIONS_MAX);
    args.values = calloc(ARGS_VALUES_MAX, sizeof(*args.values));
    args.words = calloc((size_t)argc + 1, sizeof(*args.words));
    if (!args.values || !args.words)
        rc = error_set(err, E_RESOURCE_EXHAUSTED, "no memory left to read the command line");
    while (!rc && !args.help && parser.at < argc)
        rc = read_word(&parser);
    if (!rc && !args.help)
        rc = check_required(&parser);
    if (rc)
        args_fini(&args);
    else
        *ret = args;
    return rc;
}

void args_fini(struct args *args)
{
    free(args->values);
    free(args->words);
    *args = (struct args){0};
}

static const struct args_option *known_row(const struct args *args, const char *name)
{
    const struct args_option *row = row_by_name(args->command, str_of(name));
    insist(row != NULL);
    return row;
}

/* The last occurrence, NULL if there is none. */
static const struct args_value *last_value(const struct args *args, const char *name)
{
    const struct args_option *row = known_row(args, name);
    for (size_t i = args->count; i > 0; i--)
        if (args->values[i - 1].option == row)
            return &args->values[i - 1];
    return NULL;
}

bool args_given(const struct args *args, const char *name)
{
    return last_value(args, name) != NULL;
}

bool args_flag(const struct args *args, const char *name)
{
    const struct args_value *value = last_value(args, name);
    return value && value->text;
}

const char *args_text(const struct args *args, const char *name)
{
    const struct args_value *value = last_value(args, name);
    return value ? value->text : known_row(args, name)->fallback;
}

int64_t args_integer(const struct args *args, const char *name)
{
    const struct args_option *row = known_row(args, name);
    const char *text = args_text(args, name);
    int64_t value = 0;
    uint64_t bytes = 0;
    if (!text)
        return 0;
    if (row->type == ARGS_BYTES) {
        parse_bytes(text, &bytes, NULL);
        return (int64_t)bytes;
    }
    if (row->type == ARGS_DURATION)
        parse_duration(text, &value, NULL);
    else
        parse_i64(text, INT64_MIN, INT64_MAX, &value, NULL);
    return value;
}

double args_number(const struct args *args, const char *name)
{
    const char *text = args_text(args, name);
    double value = 0;
    if (text)
        parse_f64(text, &value, NULL);
    return value;
}

const char *args_repeated(const struct args *args, const char *name, size_t index)
{
    const struct args_option *row = known_row(args, name);
    for (size_t i = 0; i < args->count; i++)
        if (args->values[i].option == row && index-- == 0)
            return args->values[i].text;
    return NULL;
}
