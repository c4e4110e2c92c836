/* muster completion SHELL: a script for the shell, which asks `muster completion --words` */
#include <stdio.h>
#include <string.h>

#include "cli/verb.h"

static const char *const shells[] = {"bash", "zsh", NULL};
static const struct args_option options[] = {
    {.name = "words",
     .kind = ARGS_FLAG,
     .help = "print candidates for the command line behind --, as the scripts do"},
    {.name = "line", .kind = ARGS_COMMAND, .value_name = "SHELL", .help = "bash or zsh"},
    {0},
};
static const char *const examples[] = {"muster completion bash > /etc/bash_completion.d/muster",
                                       NULL};
static const struct args_command command = {
    .program = "muster completion",
    .summary = "completion for bash or zsh",
    .options = options,
    .examples = examples,
};

static void print_candidate(void *arg, const char *word, const char *help)
{
    (void)help;
    const char *partial = arg;
    if (strncmp(word, partial, strlen(partial)) == 0)
        puts(word);
}

/* words: verb, ..., previous, partial */
static int complete(const struct args *args)
{
    size_t count = args->word_count;
    const char *partial = count ? args->words[count - 1] : "";
    if (count <= 1) {
        for (const struct verb *const *verb = verbs(); *verb; verb++)
            print_candidate((void *)partial, (*verb)->name, "");
        return EXIT_DONE;
    }
    for (const struct verb *const *verb = verbs(); *verb; verb++)
        if (strcmp((*verb)->name, args->words[0]) == 0)
            args_complete((*verb)->command, count > 2 ? args->words[count - 2] : "", partial,
                          print_candidate, (void *)partial);
    return EXIT_DONE;
}

static int run(const struct args *args)
{
    if (args_flag(args, "words"))
        return complete(args);
    const char *shell = args->word_count ? args->words[0] : "bash";
    bool zsh = strcmp(shell, shells[1]) == 0;
    if (!zsh && strcmp(shell, shells[0]) != 0) {
        fprintf(stderr, "muster: completion for %s is not known; bash and zsh are\n", shell);
        return EXIT_USAGE;
    }
    if (zsh)
        printf("autoload -U +X bashcompinit && bashcompinit\n");
    printf("_muster() {\n"
           "    local IFS=$'\\n'\n"
           "    COMPREPLY=($(muster completion --words -- \"${COMP_WORDS[@]:1:COMP_CWORD}\" "
           "2>/dev/null))\n"
           "    [ ${#COMPREPLY[@]} = 0 ] && COMPREPLY=($(compgen -f -- "
           "\"${COMP_WORDS[COMP_CWORD]}\"))\n"
           "}\n"
           "complete -F _muster muster\n");
    return EXIT_DONE;
}

const struct verb verb_completion = {.name = "completion", .command = &command, .run = run};
