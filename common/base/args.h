/* A command line described by a table: options, positionals, checks, help text and completion all
 * derive from the same rows. Nothing is printed and nothing exits; the program does that.
 *
 *       --name VALUE  --name=VALUE  -n VALUE  -nVALUE  --flag  --no-flag  -abc (flags)  -- rest
 *
 * Texts point into argv and the table: both must outlive the struct args.
 */
#ifndef BASE_ARGS_H
#define BASE_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/error.h"

enum { ARGS_OPTIONS_MAX = 64, ARGS_VALUES_MAX = 4096 };

enum args_kind {
    ARGS_FLAG,       /* --name; --no-name reverses it */
    ARGS_OPTION,     /* --name VALUE; the last one counts */
    ARGS_REPEATED,   /* --name VALUE, any number of times, in order */
    ARGS_POSITIONAL, /* one word, in the order of the table */
    ARGS_WORDS,      /* all remaining words; last positional row */
    ARGS_COMMAND,    /* the first word and everything after it, options included; last row. A `--`
                      * before it is dropped: `run -- prog -x` and `run prog -x` are the same. A
                      * first word that `is_file` accepts is a file: options may follow it */
};

enum args_type { ARGS_TEXT, ARGS_INTEGER, ARGS_NUMBER, ARGS_DURATION, ARGS_BYTES };

struct args_option {
    const char *name; /* without dashes */
    char letter;      /* 0 if none */
    enum args_kind kind;
    enum args_type type; /* checked while parsing */
    bool required;
    int64_t min, max;           /* of ARGS_INTEGER, if they differ */
    const char *value_name;     /* "URL" in the help; NULL shows the name in capitals */
    const char *fallback;       /* used and shown when not given; NULL if none */
    const char *const *choices; /* NULL-terminated; NULL allows anything */
    const char *const *offers;  /* only for completion: some possible values; NULL if none */
    const char *values;         /* only for completion: the kind of value, for programs that can
                                 * list them */
    bool (*is_file)(const char *word); /* of ARGS_COMMAND; may be NULL */
    const char *help;
};

struct args_command {
    const char *program;               /* "muster" or "muster submit": starts the usage line */
    const char *summary;               /* one line */
    const char *description;           /* paragraphs, may be NULL */
    const struct args_option *options; /* ended by a NULL name */
    const char *const *examples;       /* NULL-terminated lines; may be NULL */
};

struct args_value; /* one occurrence */

struct args { /* fill with args_parse, release with args_fini */
    const struct args_command *command;
    bool help; /* --help or -h was given; nothing else was checked */
    struct args_value *values;
    size_t count;
    const char **words; /* of the last row, ARGS_WORDS or ARGS_COMMAND; NULL-terminated */
    size_t word_count;
};

/* `argv` without the program's (and verb's) own name. E_INVALID_ARGUMENT: err->text names the
 * option, err->hint the nearest one or how to get help. On failure `ret` needs no args_fini. */
int args_parse(const struct args_command *command, int argc, char *const *argv, struct args *ret,
               struct error *err);
void args_fini(struct args *args);

/* All of these abort on a name that is not in the table, because that is a mistake of ours. */
bool args_given(const struct args *args, const char *name);
bool args_flag(const struct args *args, const char *name);
const char *args_text(const struct args *args, const char *name); /* value, fallback or NULL */
/* The value (or fallback) by type; 0 if neither. Cannot fail: args_parse checked it. */
int64_t args_integer(const struct args *args, const char *name); /* durations in ms, bytes too */
double args_number(const struct args *args, const char *name);
/* The i-th value of ARGS_REPEATED, NULL beyond. */
const char *args_repeated(const struct args *args, const char *name, size_t index);

/* Usage, description, aligned rows, examples; 80 columns. */
int args_help(const struct args_command *command, struct buf *out);
int args_usage(const struct args_command *command, struct buf *out); /* the usage line alone */

/* The row that the last of `words` is a value of, complete or not: an option's or a positional's.
 * NULL if it is an option's name, or one too many. */
const struct args_option *args_row_of(const struct args_command *command, size_t count,
                                      const char *const *words);

/* Candidates for the last of `words`, one call each: option names for "-...", else choices and
 * offers of its row. */
typedef void (*args_candidate_fn)(void *arg, const char *word, const char *help);
void args_complete(const struct args_command *command, size_t count, const char *const *words,
                   args_candidate_fn fn, void *arg);

#endif
