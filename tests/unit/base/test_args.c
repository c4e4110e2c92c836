#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "common/base/args.h"
#include "common/base/str.h"

static const char *const outputs[] = {"table", "json", "yaml", NULL};
static const char *const example_lines[] = {"muster submit job.yaml", NULL};

static const struct args_option submit_options[] = {
    {.name = "follow", .letter = 'f', .kind = ARGS_FLAG, .help = "show the log until it ends"},
    {.name = "quiet", .letter = 'q', .kind = ARGS_FLAG},
    {.name = "nodes",
     .letter = 'n',
     .kind = ARGS_OPTION,
     .type = ARGS_INTEGER,
     .min = 1,
     .max = 100,
     .fallback = "1",
     .value_name = "COUNT",
     .help = "how many machines"},
    {.name = "memory", .kind = ARGS_OPTION, .type = ARGS_BYTES, .help = "of each worker"},
    {.name = "timeout", .kind = ARGS_OPTION, .type = ARGS_DURATION, .fallback = "30s"},
    {.name = "rate", .kind = ARGS_OPTION, .type = ARGS_NUMBER},
    {.name = "output",
     .letter = 'o',
     .kind = ARGS_OPTION,
     .choices = outputs,
     .fallback = "table",
     .help = "format"},
    {.name = "env",
     .letter = 'e',
     .kind = ARGS_REPEATED,
     .value_name = "KEY=VALUE",
     .help = "set a variable"},
    {.name = "file", .kind = ARGS_POSITIONAL, .required = true, .help = "the job spec"},
    {.name = "others", .kind = ARGS_WORDS},
    {0},
};

static const struct args_command submit = {
    .program = "muster submit",
    .summary = "Submit a job.",
    .description = "The spec is YAML or JSON. It is checked before anything is stored, and errors "
                   "name the line.\nA second paragraph.",
    .options = submit_options,
    .examples = example_lines,
};

static struct args args;
static struct error err;

static int count(const char *const *words)
{
    int n = 0;
    while (words[n])
        n++;
    return n;
}

#define WORDS(...) ((const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

static int parse_with(const struct args_command *command, const char *const *words)
{
    args = (struct args){0};
    return args_parse(command, count(words), (char *const *)words, &args, &err);
}

static void refuse(const char *const *words, const char *sentence, const char *hint)
{
    cr_assert_eq(parse_with(&submit, words), E_INVALID_ARGUMENT);
    cr_assert_str_eq(err.text, sentence);
    cr_assert_str_eq(err.hint, hint);
    cr_assert_null(args.values, "untouched on failure");
}

Test(args, all_spellings_of_options)
{
    cr_assert_eq(
        parse_with(&submit, WORDS("--nodes", "3", "-fq", "-ojson", "--memory=2GiB", "job.yaml",
                                  "-e", "A=1", "--env=B=2", "--timeout", "5m", "--rate", "1.5")),
        0);
    cr_assert_eq(args_integer(&args, "nodes"), 3);
    cr_assert(args_flag(&args, "follow") && args_flag(&args, "quiet"));
    cr_assert_str_eq(args_text(&args, "output"), "json");
    cr_assert_eq(args_integer(&args, "memory"), 2ll << 30);
    cr_assert_eq(args_integer(&args, "timeout"), 300000);
    cr_assert_eq(args_number(&args, "rate"), 1.5);
    cr_assert_str_eq(args_text(&args, "file"), "job.yaml");
    cr_assert_str_eq(args_repeated(&args, "env", 0), "A=1");
    cr_assert_str_eq(args_repeated(&args, "env", 1), "B=2");
    cr_assert_null(args_repeated(&args, "env", 2));
    args_fini(&args);
    args_fini(&args);
}

Test(args, what_was_not_given_has_its_fallback)
{
    cr_assert_eq(parse_with(&submit, WORDS("job.yaml")), 0);
    cr_assert_eq(args_integer(&args, "nodes"), 1);
    cr_assert_not(args_given(&args, "nodes"));
    cr_assert_eq(args_integer(&args, "timeout"), 30000);
    cr_assert_eq(args_integer(&args, "memory"), 0);
    cr_assert_eq(args_number(&args, "rate"), 0);
    cr_assert_null(args_text(&args, "memory"));
    cr_assert_not(args_flag(&args, "follow"));
    cr_assert_eq(args.word_count, 0);
    args_fini(&args);
}

Test(args, the_last_of_an_option_counts_and_flags_can_be_taken_back)
{
    cr_assert_eq(parse_with(&submit, WORDS("-n", "2", "-n7", "--follow", "--no-follow", "x")), 0);
    cr_assert_eq(args_integer(&args, "nodes"), 7);
    cr_assert_not(args_flag(&args, "follow"));
    args_fini(&args);
}

Test(args, words_after_two_dashes_are_never_options)
{
    cr_assert_eq(parse_with(&submit, WORDS("-f", "--", "-file", "--nodes", "-")), 0);
    cr_assert_str_eq(args_text(&args, "file"), "-file");
    cr_assert_eq(args.word_count, 2);
    cr_assert_str_eq(args.words[0], "--nodes");
    cr_assert_str_eq(args.words[1], "-");
    cr_assert_null(args.words[2]);
    args_fini(&args);
}

Test(args, a_command_keeps_its_own_options)
{
    static const struct args_option options[] = {
        {.name = "nodes", .letter = 'n', .kind = ARGS_OPTION},
        {.name = "program", .kind = ARGS_COMMAND, .required = true},
        {0},
    };
    static const struct args_command run = {.program = "muster run", .options = options};
    cr_assert_eq(parse_with(&run, WORDS("-n", "2", "prog", "-n", "3", "--", "--help")), 0);
    cr_assert_str_eq(args_text(&args, "nodes"), "2");
    cr_assert_eq(args.word_count, 5);
    cr_assert_str_eq(args.words[3], "--");
    args_fini(&args);
    cr_assert_eq(parse_with(&run, WORDS("--", "prog", "-x")), 0);
    cr_assert_eq(args.word_count, 2);
    cr_assert_str_eq(args.words[0], "prog");
    args_fini(&args);
    cr_assert_eq(parse_with(&run, WORDS("-n", "2")), E_INVALID_ARGUMENT);
    cr_assert_str_eq(err.text, "muster run: PROGRAM is missing");
}

static bool ends_in_yaml(const char *word)
{
    return str_ends(word, ".yaml");
}

Test(args, options_go_on_behind_a_file_but_not_behind_a_program)
{
    static const struct args_option options[] = {
        {.name = "nodes", .letter = 'n', .kind = ARGS_OPTION},
        {.name = "program", .kind = ARGS_COMMAND, .is_file = ends_in_yaml},
        {0},
    };
    static const struct args_command run = {.program = "muster run", .options = options};
    cr_assert_eq(parse_with(&run, WORDS("job.yaml", "-n", "3")), 0);
    cr_assert_str_eq(args_text(&args, "nodes"), "3");
    cr_assert_eq(args.word_count, 1);
    args_fini(&args);
    cr_assert_eq(parse_with(&run, WORDS("prog", "job.yaml", "-n", "3")), 0);
    cr_assert_null(args_text(&args, "nodes"));
    cr_assert_eq(args.word_count, 4);
    args_fini(&args);
    cr_assert_eq(parse_with(&run, WORDS("--", "job.yaml", "-n", "3")), 0);
    cr_assert_eq(args.word_count, 3);
    args_fini(&args);
    cr_assert_eq(parse_with(&run, WORDS("job.yaml", "prog", "-n", "3")), 0);
    cr_assert_eq(args.word_count, 4); /* both: the program says that it cannot be */
    args_fini(&args);
}

Test(args, errors_name_the_option_and_the_nearest_one)
{
    refuse(WORDS("--node", "3", "x"), "muster submit: unknown option --node",
           "did you mean --nodes?");
    refuse(WORDS("--folow", "x"), "muster submit: unknown option --folow",
           "did you mean --follow?");
    refuse(WORDS("--outptu=json", "x"), "muster submit: unknown option --outptu=json",
           "did you mean --output?");
    refuse(WORDS("--zzzz"), "muster submit: unknown option --zzzz", "see 'muster submit --help'");
    refuse(WORDS("--no-nodes", "x"), "muster submit: unknown option --no-nodes",
           "see 'muster submit --help'");
    refuse(WORDS("-z"), "muster submit: unknown option -z", "see 'muster submit --help'");
    refuse(WORDS("--nodes"), "muster submit: --nodes needs a value", "see 'muster submit --help'");
    refuse(WORDS("-n"), "muster submit: --nodes needs a value", "see 'muster submit --help'");
    refuse(WORDS("--follow=yes", "x"), "muster submit: --follow does not accept a value",
           "see 'muster submit --help'");
    refuse(WORDS(), "muster submit: FILE is missing", "see 'muster submit --help'");
    refuse(WORDS("--file", "x"), "muster submit: unknown option --file",
           "see 'muster submit --help'");
}

Test(args, values_are_checked_by_type_and_choice)
{
    refuse(WORDS("-n", "0", "x"), "muster submit: --nodes: 0 is not in 1..100", "");
    refuse(WORDS("--memory", "lots", "x"),
           "muster submit: --memory: 'lots' is not a size such as 4096, 512MiB or 2GiB", "");
    refuse(WORDS("-o", "jsn", "x"), "muster submit: --output: 'jsn' is none of table, json, yaml",
           "did you mean json?");
}

Test(args, help_wins_over_everything_after_it)
{
    cr_assert_eq(parse_with(&submit, WORDS("--help", "--zzzz")), 0);
    cr_assert(args.help);
    args_fini(&args);
    cr_assert_eq(parse_with(&submit, WORDS("-h")), 0);
    cr_assert(args.help);
    args_fini(&args);
}

Test(args, help_text_is_aligned_and_within_eighty_columns)
{
    struct buf out = {0};
    cr_assert_eq(args_help(&submit, &out), 0);
    const char *text = buf_cstr(&out);
    cr_assert(str_starts(text, "usage: muster submit [options] FILE [OTHERS...]\n\n"
                               "Submit a job.\n"));
    cr_assert_not_null(strstr(text, "\n  -n, --nodes COUNT      how many machines [default: 1]\n"),
                       "%s", text);
    cr_assert_not_null(strstr(text, "  -o, --output OUTPUT    format (table|json|yaml) "));
    cr_assert_not_null(strstr(text, "set a variable; may be repeated"));
    cr_assert_null(strstr(text, " \n"), "no space at the end of a line");
    cr_assert_not_null(strstr(text, "\nexamples:\n  muster submit job.yaml\n"));
    struct str rest = str_of(text), line;
    while (str_next(&rest, '\n', &line))
        cr_assert_leq(line.size, 80, "%.*s", (int)line.size, line.data);
    buf_fini(&out);
}

static void expect_positional(const char *expected, size_t count, const char *const *words)
{
    static const struct args_option rows[] = {
        {.name = "all", .letter = 'a', .kind = ARGS_FLAG},
        {.name = "output", .letter = 'o', .kind = ARGS_OPTION},
        {.name = "job", .kind = ARGS_POSITIONAL},
        {.name = "node", .kind = ARGS_WORDS},
        {0}};
    static const struct args_command command = {.program = "x", .options = rows};
    const struct args_option *row = args_row_of(&command, count, words);
    const char *name = row ? row->name : NULL;
    cr_expect_str_eq(name ? name : "none", expected, "%s", words[count - 1]);
}

Test(args, completion_knows_which_argument_a_word_is)
{
    expect_positional("job", 1, (const char *[]){""});
    expect_positional("job", 2, (const char *[]){"-a", "j"});
    expect_positional("output", 2, (const char *[]){"-o", "j"});
    expect_positional("job", 3, (const char *[]){"--output", "json", "j"});
    expect_positional("job", 2, (const char *[]){"--output=json", "j"});
    expect_positional("node", 4, (const char *[]){"-o", "json", "j", ""});
    expect_positional("node", 3, (const char *[]){"j", "n1", "n2"});
    expect_positional("none", 2, (const char *[]){"j", "--o"});
}

static void collect(void *arg, const char *word, const char *help)
{
    (void)help;
    buf_printf(arg, "%s ", word);
}

static void expect_candidates(const char *previous, const char *partial, const char *expected)
{
    struct buf out = {0};
    const char *const words[] = {previous, partial};
    args_complete(&submit, 2, words, collect, &out);
    cr_assert_str_eq(buf_cstr(&out), expected);
    buf_fini(&out);
}

Test(args, completion_offers_options_and_choices)
{
    expect_candidates("submit", "--n", "--nodes ");
    expect_candidates("--output", "", "table json yaml ");
    expect_candidates("-o", "j", "json ");
    expect_candidates("--nodes", "--", "");
    expect_candidates("submit", "", "");
    expect_candidates("submit", "--h", "--help ");
}

Test(args, a_name_that_is_not_in_the_table_is_a_mistake_of_ours, .signal = SIGABRT)
{
    freopen("/dev/null", "w", stderr);
    parse_with(&submit, WORDS("x"));
    args_text(&args, "absent");
}

Test(args, more_options_than_the_limit_are_refused)
{
    static const char *words[ARGS_VALUES_MAX + 3];
    for (int i = 0; i < ARGS_VALUES_MAX + 2; i++)
        words[i] = "-f";
    cr_assert_eq(parse_with(&submit, words), E_INVALID_ARGUMENT);
}
