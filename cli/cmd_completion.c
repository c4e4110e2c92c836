/* muster completion SHELL: a script for the shell, which asks `muster completion --words`. Names of
 * jobs and nodes are asked of the coordinator, if it answers at once.
 */
#include <stdio.h>
#include <string.h>

#include "cli/client.h"
#include "common/rpc/message.h"

enum { NAMES_TIMEOUT_MS = 700, JOBS_SHOWN_MAX = 200 };

static const char *const shells[] = {"bash", "zsh", NULL};
static const struct args_option options[] = {
    CLIENT_OPTIONS,
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

static void print_jobs(struct client *client, const struct rpc_options *how, const char *partial)
{
    struct error ignored = {0};
    Muster__ListJobsRequest request = MUSTER__LIST_JOBS_REQUEST__INIT;
    Muster__ListJobsAnswer *answer = NULL;
    request.limit = JOBS_SHOWN_MAX;
    if (client_call(client, "ListJobs", &request, how, &answer, &ignored) != 0)
        return;
    for (size_t i = 0; i < answer->n_jobs; i++) {
        print_candidate((void *)partial, answer->jobs[i]->id, "");
        if (answer->jobs[i]->spec)
            print_candidate((void *)partial, answer->jobs[i]->spec->name, "");
    }
    rpc_message_free(answer);
}

static void print_nodes(struct client *client, const struct rpc_options *how, const char *partial)
{
    struct error ignored = {0};
    Muster__ListNodesRequest request = MUSTER__LIST_NODES_REQUEST__INIT;
    Muster__ListNodesAnswer *answer = NULL;
    if (client_call(client, "ListNodes", &request, how, &answer, &ignored) != 0)
        return;
    for (size_t i = 0; i < answer->n_nodes; i++)
        print_candidate((void *)partial, answer->nodes[i]->name, "");
    rpc_message_free(answer);
}

/* What a word is, its verb's table says by the name of the row. */
static void print_names(const struct args *args, const struct args_command *of, const char *partial)
{
    const char *row =
        args_positional_of(of, args->word_count - 1, (const char *const *)args->words + 1);
    bool job = row && strcmp(row, "job") == 0, node = row && strcmp(row, "node") == 0;
    struct client client = {0};
    struct error ignored = {0};
    const struct rpc_options how = {.timeout_ms = NAMES_TIMEOUT_MS};
    if ((!job && !node) || client_open(args, &client, &ignored) != 0)
        return;
    if (job)
        print_jobs(&client, &how, partial);
    else
        print_nodes(&client, &how, partial);
    client_close(&client);
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
    for (const struct verb *const *verb = verbs(); *verb; verb++) {
        if (strcmp((*verb)->name, args->words[0]) != 0)
            continue;
        args_complete((*verb)->command, count > 2 ? args->words[count - 2] : "", partial,
                      print_candidate, (void *)partial);
        print_names(args, (*verb)->command, partial);
    }
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
