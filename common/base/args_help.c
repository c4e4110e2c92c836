#include <string.h>

#include "common/base/args_table.h"
#include "common/base/str.h"

enum { HELP_WIDTH = 80, HELP_COLUMN_MAX = 30 };

static bool has_options(const struct args_command *command)
{
    for (const struct args_option *row = command->options; row->name; row++)
        if (!args_is_positional(row))
            return true;
    return false;
}

int args_usage(const struct args_command *command, struct buf *out)
{
    buf_printf(out, "usage: %s%s", command->program, has_options(command) ? " [options]" : "");
    for (const struct args_option *row = command->options; row->name; row++) {
        char space[ARGS_VALUE_NAME_BYTES];
        const char *name = args_value_name(row, space);
        const char *dots = row->kind == ARGS_WORDS ? "..." : "";
        if (!args_is_positional(row)) {
            if (row->required)
                buf_printf(out, " --%s %s", row->name, name);
            continue;
        }
        if (row->kind == ARGS_COMMAND && row->is_file)
            buf_printf(out, " %s", name);
        else if (row->kind == ARGS_COMMAND)
            buf_printf(out, row->required ? " [--] %s [args...]" : " [[--] %s [args...]]", name);
        else
            buf_printf(out, row->required ? " %s%s" : " [%s%s]", name, dots);
    }
    return buf_char(out, '\n');
}

/* "  -n, --nodes COUNT" */
static void left_column(const struct args_option *row, struct buf *out)
{
    char space[ARGS_VALUE_NAME_BYTES];
    if (args_is_positional(row)) {
        buf_printf(out, "  %s", args_value_name(row, space));
        return;
    }
    if (row->letter)
        buf_printf(out, "  -%c, --%s", row->letter, row->name);
    else
        buf_printf(out, "      --%s", row->name);
    if (row->kind != ARGS_FLAG)
        buf_printf(out, " %s", args_value_name(row, space));
}

static void right_column(const struct args_option *row, struct buf *out)
{
    buf_str(out, row->help ? row->help : "");
    if (row->choices) {
        buf_str(out, " (");
        for (const char *const *choice = row->choices; *choice; choice++)
            buf_printf(out, "%s%s", choice == row->choices ? "" : "|", *choice);
        buf_char(out, ')');
    }
    if (row->kind == ARGS_REPEATED)
        buf_str(out, "; may be repeated");
    if (row->required && !args_is_positional(row))
        buf_str(out, "; required");
    if (row->fallback && *row->fallback)
        buf_printf(out, " [default: %s]", row->fallback);
}

/* Words of `text` from the current column on, later lines indented by `indent`. */
static void wrap(struct str text, size_t indent, size_t column, struct buf *out)
{
    struct str word;
    bool first = true;
    while (str_next(&text, ' ', &word)) {
        if (!first && column + 1 + word.size > HELP_WIDTH) {
            buf_char(out, '\n');
            buf_fill(out, ' ', indent);
            column = indent;
        } else if (!first) {
            buf_char(out, ' ');
            column++;
        }
        buf_append(out, word.data, word.size);
        column += word.size;
        first = false;
    }
    buf_char(out, '\n');
}

static void paragraphs(const char *text, struct buf *out)
{
    struct str rest = str_of(text), line;
    while (str_next(&rest, '\n', &line))
        wrap(line, 0, 0, out);
}

static size_t widest_left(const struct args_command *command)
{
    size_t widest = strlen("  -h, --help");
    for (const struct args_option *row = command->options; row->name; row++) {
        struct buf left = {0};
        left_column(row, &left);
        size_t width = utf8_columns(buf_cstr(&left));
        if (width > widest && width <= HELP_COLUMN_MAX)
            widest = width;
        buf_fini(&left);
    }
    return widest;
}

static void help_row(const struct args_option *row, size_t indent, struct buf *out)
{
    struct buf left = {0}, right = {0};
    left_column(row, &left);
    right_column(row, &right);
    size_t width = utf8_columns(buf_cstr(&left));
    buf_str(out, buf_cstr(&left));
    if (right.size && width + 2 > indent) {
        buf_char(out, '\n');
        width = 0;
    }
    if (right.size)
        buf_fill(out, ' ', indent - width);
    wrap(str_of(buf_cstr(&right)), indent, indent, out);
    buf_fini(&left);
    buf_fini(&right);
}

int args_help(const struct args_command *command, struct buf *out)
{
    static const struct args_option help = {
        .name = "help", .letter = 'h', .kind = ARGS_FLAG, .help = "show this text"};
    size_t indent = widest_left(command) + 2;
    bool any_positional = false;
    args_usage(command, out);
    if (command->summary)
        buf_printf(out, "\n%s\n", command->summary);
    if (command->description) {
        buf_char(out, '\n');
        paragraphs(command->description, out);
    }
    for (const struct args_option *row = command->options; row->name; row++) {
        if (!args_is_positional(row))
            continue;
        buf_str(out, any_positional ? "" : "\narguments:\n");
        any_positional = true;
        help_row(row, indent, out);
    }
    buf_str(out, "\noptions:\n");
    for (const struct args_option *row = command->options; row->name; row++)
        if (!args_is_positional(row))
            help_row(row, indent, out);
    help_row(&help, indent, out);
    if (command->examples)
        buf_str(out, "\nexamples:\n");
    for (const char *const *line = command->examples; line && *line; line++)
        buf_printf(out, "  %s\n", *line);
    return buf_failed(out) ? E_RESOURCE_EXHAUSTED : 0;
}

static void complete_values(const char *const *values, const char *partial, const char *help,
                            args_candidate_fn fn, void *arg)
{
    for (; values && *values; values++)
        if (str_starts(*values, partial))
            fn(arg, *values, help);
}

/* The row of the option `word` ("--state", "-s"); NULL if it has no value. */
static const struct args_option *row_wanting_value(const struct args_command *command,
                                                   const char *word)
{
    for (const struct args_option *row = command->options; row->name; row++) {
        if (args_is_positional(row) || row->kind == ARGS_FLAG)
            continue;
        if (str_starts(word, "--") && strcmp(word + 2, row->name) == 0)
            return row;
        if (row->letter && word[0] == '-' && word[1] == row->letter && word[2] == '\0')
            return row;
    }
    return NULL;
}

const struct args_option *args_row_of(const struct args_command *command, size_t count,
                                      const char *const *words)
{
    const struct args_option *row;
    size_t at = 0, number = 0;
    for (; at + 1 < count; at++) {
        if (words[at][0] != '-' || !words[at][1])
            number++;
        else if ((row = row_wanting_value(command, words[at])) && at++ + 2 == count)
            return row;
    }
    if (at + 1 != count || words[at][0] == '-')
        return NULL;
    for (row = command->options; row->name; row++)
        if (args_is_positional(row) && (row->kind != ARGS_POSITIONAL || number-- == 0))
            return row;
    return NULL;
}

void args_complete(const struct args_command *command, size_t count, const char *const *words,
                   args_candidate_fn fn, void *arg)
{
    const char *partial = count ? words[count - 1] : "";
    const struct args_option *of = args_row_of(command, count, words);
    if (of) {
        complete_values(of->choices, partial, of->help, fn, arg);
        complete_values(of->offers, partial, of->help, fn, arg);
        return;
    }
    for (const struct args_option *row = command->options; row->name && partial[0] == '-'; row++) {
        char word[STR_DISTANCE_LENGTH_MAX + 3];
        if (!args_is_positional(row) && !str_printf(word, sizeof(word), "--%s", row->name) &&
            str_starts(word, partial))
            fn(arg, word, row->help);
    }
    if (partial[0] == '-' && str_starts("--help", partial))
        fn(arg, "--help", "show this text");
}
