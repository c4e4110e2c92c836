/* muster completion SHELL: a script for the shell, which calls `muster completion --words`. Options
 * and values are from the verbs' tables. Names of jobs, nodes, tenants and tokens are requested
 * from the coordinator, if it answers at once. */
#include <stdio.h>
#include <string.h>

#include "cli/client.h"
#include "common/base/map.h"
#include "common/base/str.h"
#include "common/rpc/message.h"
#include "common/settings/setting.h"

enum { NAMES_TIMEOUT_MS = 2000, JOBS_SHOWN_MAX = 200, VALUE_MAX = 128 };

static const struct args_option options[] = {
    CLIENT_OPTIONS,
    {.name = "words",
     .kind = ARGS_FLAG,
     .help = "print candidates for the command line after -- (the scripts use this)"},
    {.name = "line", .kind = ARGS_COMMAND, .value_name = "SHELL", .help = "bash, zsh or fish"},
    {0},
};
static const char *const examples[] = {
    "muster completion bash > /etc/bash_completion.d/muster",
    "muster completion fish > ~/.config/fish/completions/muster.fish",
    NULL,
};
static const struct args_command command = {
    .program = "muster completion",
    .summary = "completion for bash, zsh or fish",
    .options = options,
    .examples = examples,
};

struct offer { /* what is offered for the last word */
    const struct args *args;
    const char *const *words; /* after the verb, the partial one last */
    size_t count;
    const char *partial;
    struct strmap seen; /* each candidate once */
    const struct rpc_options how;
};

static void print_candidate(void *arg, const char *word, const char *help)
{
    (void)help;
    struct offer *offer = arg;
    if (!*word || !str_starts(word, offer->partial) || strmap_get(&offer->seen, word) ||
        strmap_set(&offer->seen, word, offer, NULL))
        return;
    puts(word);
}

static void offer_jobs(struct offer *offer, struct client *client)
{
    struct error ignored = {0};
    Muster__ListJobsRequest request = MUSTER__LIST_JOBS_REQUEST__INIT;
    Muster__ListJobsAnswer *answer = NULL;
    request.limit = JOBS_SHOWN_MAX;
    if (client_call(client, "ListJobs", &request, &offer->how, &answer, &ignored))
        return;
    for (size_t i = 0; i < answer->n_jobs; i++) {
        print_candidate(offer, answer->jobs[i]->id, "");
        if (answer->jobs[i]->spec)
            print_candidate(offer, answer->jobs[i]->spec->name, "");
    }
    rpc_message_free(answer);
}

static void offer_nodes(struct offer *offer, struct client *client)
{
    struct error ignored = {0};
    Muster__ListNodesRequest request = MUSTER__LIST_NODES_REQUEST__INIT;
    Muster__ListNodesAnswer *answer = NULL;
    if (client_call(client, "ListNodes", &request, &offer->how, &answer, &ignored))
        return;
    for (size_t i = 0; i < answer->n_nodes; i++)
        print_candidate(offer, answer->nodes[i]->name, "");
    rpc_message_free(answer);
}

/* A word before is `action`: a name that is being made is not offered. */
static bool has_word(const struct offer *offer, const char *action)
{
    for (size_t i = 0; i + 1 < offer->count; i++)
        if (strcmp(offer->words[i], action) == 0)
            return true;
    return false;
}

static void offer_tenants(struct offer *offer, struct client *client)
{
    struct error ignored = {0};
    Muster__ListTenantsRequest request = MUSTER__LIST_TENANTS_REQUEST__INIT;
    Muster__ListTenantsAnswer *answer = NULL;
    if (client_call(client, "ListTenants", &request, &offer->how, &answer, &ignored))
        return;
    for (size_t i = 0; i < answer->n_tenants; i++)
        print_candidate(offer, answer->tenants[i]->name, "");
    rpc_message_free(answer);
}

static void offer_tokens(struct offer *offer, struct client *client)
{
    struct error ignored = {0};
    Muster__ListTokensRequest request = MUSTER__LIST_TOKENS_REQUEST__INIT;
    Muster__ListTokensAnswer *answer = NULL;
    if (!has_word(offer, "revoke") ||
        client_call(client, "ListTokens", &request, &offer->how, &answer, &ignored))
        return;
    for (size_t i = 0; i < answer->n_tokens; i++)
        if (!answer->tokens[i]->revoked_wall_ms)
            print_candidate(offer, answer->tokens[i]->name, "");
    rpc_message_free(answer);
}

/* Names to set or remove; also after VARIABLE= of --secret. */
static void offer_secrets(struct offer *offer, struct client *client)
{
    struct error ignored = {0};
    char before[VALUE_MAX] = "", word[2 * VALUE_MAX];
    Muster__ListSecretsRequest request = MUSTER__LIST_SECRETS_REQUEST__INIT;
    Muster__ListSecretsAnswer *answer = NULL;
    const char *equals = strchr(offer->partial, '=');
    if (equals && str_printf(before, sizeof(before), "%.*s", (int)(equals + 1 - offer->partial),
                             offer->partial))
        return;
    if (client_call(client, "ListSecrets", &request, &offer->how, &answer, &ignored))
        return;
    for (size_t i = 0; i < answer->n_secrets; i++)
        if (!str_printf(word, sizeof(word), "%s%s", before, answer->secrets[i]->name))
            print_candidate(offer, word, "");
    rpc_message_free(answer);
}

static void offer_states(struct offer *offer)
{
    const ProtobufCEnumDescriptor *states = &muster__job__state__descriptor;
    print_candidate(offer, "active", "");
    print_candidate(offer, "stalled", "");
    for (unsigned i = 0; i < states->n_values; i++)
        if (states->values[i].value != MUSTER__JOB__STATE__unknown)
            print_candidate(offer, states->values[i].name, "");
}

/* Each of "a|b|c" after `before`. */
static void offer_choices(struct offer *offer, const char *before, const char *choices)
{
    struct str rest = str_of(choices), choice;
    char word[VALUE_MAX];
    while (str_next(&rest, '|', &choice))
        if (!str_printf(word, sizeof(word), "%s%.*s", before, (int)choice.size, choice.data))
            print_candidate(offer, word, "");
}

static void offer_setting_values(struct offer *offer, const char *before, const char *name)
{
    int setting = settings_find(name);
    if (setting < 0)
        return;
    const struct setting_row *row = &setting_rows[setting];
    if (row->kind == SETTING_BOOL)
        offer_choices(offer, before, "true|false");
    else if (row->kind == SETTING_CHOICE || row->kind == SETTING_CHOICE_OR_SIZE)
        offer_choices(offer, before, row->choices);
}

/* strategy=, and after it the choices. */
static void offer_settings(struct offer *offer)
{
    char word[VALUE_MAX];
    const char *equals = strchr(offer->partial, '=');
    if (equals &&
        !str_printf(word, sizeof(word), "%.*s", (int)(equals - offer->partial), offer->partial)) {
        char before[VALUE_MAX];
        (void)str_printf(before, sizeof(before), "%s=", word);
        offer_setting_values(offer, before, word);
        return;
    }
    for (int i = 0; i < SETTINGS_COUNT; i++)
        if (setting_rows[i].use != SETTING_OF_MACHINE &&
            !str_printf(word, sizeof(word), "%s=", setting_rows[i].name))
            print_candidate(offer, word, "");
}

static const struct {
    const char *values;
    void (*offer)(struct offer *offer, struct client *client);
} lists[] = {{"job", offer_jobs},
             {"node", offer_nodes},
             {"tenant", offer_tenants},
             {"token", offer_tokens},
             {"secret", offer_secrets}};

/* The row, or its name, decides the kind of a value. */
static void offer_names(struct offer *offer, const struct args_command *of)
{
    const struct args_option *row = args_row_of(of, offer->count, offer->words);
    const char *values = !row ? "" : row->values ? row->values : row->name;
    struct client client = {0};
    struct error ignored = {0};
    if (strcmp(values, "state") == 0)
        offer_states(offer);
    else if (strcmp(values, "set") == 0)
        offer_settings(offer);
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        if (strcmp(values, lists[i].values) != 0 || has_word(offer, "create"))
            continue;
        if (!client_open(offer->args, &client, &ignored))
            lists[i].offer(offer, &client);
        client_close(&client);
    }
}

/* bash cuts a word at '=': "--set", "strategy", "=", "dd". True if that is what the line ends with.
 */
static bool offer_cut_value(struct offer *offer)
{
    size_t count = offer->count;
    bool bare = count >= 3 && strcmp(offer->partial, "=") == 0;
    size_t name = bare ? count - 2 : count - 3;
    if (!bare && (count < 4 || strcmp(offer->words[count - 2], "=") != 0))
        return false;
    if (strcmp(offer->words[name - 1], "--set") != 0)
        return false;
    if (bare)
        offer->partial = "";
    offer_setting_values(offer, "", offer->words[name]);
    return true;
}

/* words: verb, ..., partial */
static int print_candidates(const struct args *args, const struct verb *const *all)
{
    size_t count = args->word_count;
    struct offer offer = {.args = args,
                          .words = (const char *const *)args->words + 1,
                          .count = count ? count - 1 : 0,
                          .partial = count ? args->words[count - 1] : "",
                          .how = {.timeout_ms = NAMES_TIMEOUT_MS}};
    for (const struct verb *const *verb = all; *verb; verb++) {
        if (count <= 1) {
            print_candidate(&offer, (*verb)->name, "");
        } else if (strcmp((*verb)->name, args->words[0]) == 0 && !offer_cut_value(&offer)) {
            args_complete((*verb)->command, offer.count, offer.words, print_candidate, &offer);
            offer_names(&offer, (*verb)->command);
        }
    }
    strmap_fini(&offer.seen);
    return EXIT_DONE;
}

static const char bash_script[] =
    "_muster() {\n"
    "    local IFS=$'\\n'\n"
    "    COMPREPLY=($(muster completion --words -- \"${COMP_WORDS[@]:1:COMP_CWORD}\" "
    "2>/dev/null))\n"
    "    [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null\n"
    "    [ ${#COMPREPLY[@]} = 0 ] && COMPREPLY=($(compgen -f -- \"${COMP_WORDS[COMP_CWORD]}\"))\n"
    "}\n"
    "complete -F _muster muster\n";
static const char zsh_start[] = "autoload -U +X bashcompinit && bashcompinit\n";
static const char fish_script[] =
    "complete -c muster -a '(set -l line (commandline -opc) (commandline -ct); "
    "muster completion --words -- $line[2..-1] 2>/dev/null)'\n";

static int run_completion(const struct args *args, const struct verb *const *all)
{
    if (args_flag(args, "words"))
        return print_candidates(args, all);
    const char *shell = args->word_count ? args->words[0] : "bash";
    if (strcmp(shell, "bash") == 0) {
        fputs(bash_script, stdout);
    } else if (strcmp(shell, "zsh") == 0) {
        fputs(zsh_start, stdout);
        fputs(bash_script, stdout);
    } else if (strcmp(shell, "fish") == 0) {
        fputs(fish_script, stdout);
    } else {
        fprintf(stderr, "muster: completion for %s is not known; bash, zsh and fish are\n", shell);
        return EXIT_USAGE;
    }
    return EXIT_DONE;
}

const struct verb verb_completion = {
    .name = "completion", .command = &command, .run_among = run_completion};
