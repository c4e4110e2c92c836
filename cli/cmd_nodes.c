/* muster nodes, cordon, drain, uncordon, rekey */
#include <string.h>

#include "cli/client.h"
#include "cli/gpu_text.h"
#include "cli/table.h"
#include "common/base/parse.h"
#include "common/rpc/message.h"

static const struct args_option list_options[] = {
    CLIENT_OPTIONS,
    CLIENT_OUTPUT,
    {.name = "gpus", .kind = ARGS_FLAG, .help = "how the GPUs of each node are connected"},
    {.name = "node", .kind = ARGS_WORDS, .value_name = "NODE", .help = "names; else all nodes"},
    {0},
};
static const char *const list_examples[] = {"muster nodes", "muster nodes -o json",
                                            "muster nodes node-3 --gpus", NULL};
static const struct args_command list_command = {
    .program = "muster nodes",
    .summary = "list nodes, their slots and the jobs on them",
    .description = "With --gpus each pair of GPUs has a word of `nvidia-smi topo -m`: NV18 is 18 "
                   "NVLinks, directly or through NVSwitches. Without NVLinks it is the way over "
                   "the bus: PIX one PCIe bridge at most, PXB several, PHB a host bridge, NODE "
                   "several of one NUMA node, SYS between NUMA nodes.",
    .options = list_options,
    .examples = list_examples,
};
static const struct args_option set_options[] = {
    CLIENT_OPTIONS,
    CLIENT_OUTPUT,
    {.name = "reason",
     .kind = ARGS_OPTION,
     .help = "why; jobs of all tenants on the node are given these words"},
    {.name = "node", .kind = ARGS_WORDS, .required = true, .value_name = "NODE", .help = "names"},
    {0},
};
static const char *const cordon_examples[] = {"muster cordon node-3 --reason \"disk\"", NULL};
static const struct args_command cordon_command = {
    .program = "muster cordon",
    .summary = "place nothing new on nodes",
    .options = set_options,
    .examples = cordon_examples,
};
static const char *const drain_examples[] = {"muster drain node-3 node-4", NULL};
static const struct args_command drain_command = {
    .program = "muster drain",
    .summary = "place nothing new on nodes and move running jobs away",
    .options = set_options,
    .examples = drain_examples,
};
static const char *const uncordon_examples[] = {"muster uncordon node-3", NULL};
static const struct args_command uncordon_command = {
    .program = "muster uncordon",
    .summary = "use nodes again",
    .options = set_options,
    .examples = uncordon_examples,
};

static const char *const rekey_examples[] = {"muster rekey node-3", NULL};
static const struct args_command rekey_command = {
    .program = "muster rekey",
    .summary = "let another machine become a node",
    .description = "An agent proves with a key (DATA/node.pem) that it is the node. The key is "
                   "lost when the machine is set up again. After rekey, the next agent with this "
                   "name, another key and a token of role agent becomes the node. The old key is "
                   "refused at once, even while its agent runs. Drain the node first if it has "
                   "work.",
    .options = set_options,
    .examples = rekey_examples,
};

static void node_row(struct table *table, const Muster__Node *node)
{
    char memory[FORMAT_MAX], age[FORMAT_MAX], models[GPU_TEXT_MAX];
    const char *state = transcode_enum_name(&muster__node__state__descriptor, (int)node->state);
    table_cell(table, "%s", node->name);
    table_cell(table, "%s", state ? state : "unknown");
    table_cell(table, "%u/%u", node->slots_used, node->slots);
    table_cell(table, "%g/%g", node->cpus_used, node->cpus);
    table_cell(table, "%s", format_bytes(node->memory_bytes, memory));
    table_cell(table, "%s", gpu_models_text(node, models));
    table_cell(table, "%s", node->address);
    table_cell(table, "%s", age_text(node->seen_wall_ms, age));
    struct buf jobs = {0};
    for (size_t i = 0; i < node->n_jobs; i++)
        buf_printf(&jobs, "%s%s", i ? " " : "", node->jobs[i]);
    table_cell(table, "%s", buf_cstr(&jobs));
    buf_fini(&jobs);
    bool told = node->state != MUSTER__NODE__STATE__ready && node->reason;
    table_cell(table, "%s", told ? node->reason->text : "");
}

/* After the table: what a node cannot do for the jobs that ask for it, and what ails its GPUs. */
static void tell_faults(const Muster__ListNodesAnswer *answer)
{
    for (size_t i = 0; i < answer->n_nodes; i++) {
        if (answer->nodes[i]->unenforced[0])
            printf("%s: %s\n", answer->nodes[i]->name, answer->nodes[i]->unenforced);
        gpu_tell_faults(answer->nodes[i], stdout);
    }
}

static void print_nodes(const Muster__ListNodesAnswer *answer)
{
    static const char *const titles[] = {"NAME",    "STATE", ">SLOTS", ">CPUS",  ">MEMORY", "GPU",
                                         "ADDRESS", ">SEEN", "JOBS",   "REASON", NULL};
    struct table table;
    table_init(&table, titles);
    for (size_t i = 0; i < answer->n_nodes; i++)
        node_row(&table, answer->nodes[i]);
    table_print(&table, stdout, "no nodes; `muster agent` on a machine joins it");
    table_fini(&table);
    tell_faults(answer);
}

static void print_links(const Muster__ListNodesAnswer *answer)
{
    size_t printed = 0;
    for (size_t i = 0; i < answer->n_nodes; i++) {
        if (!answer->nodes[i]->n_gpus)
            continue;
        if (printed++)
            putchar('\n');
        gpu_print_links(answer->nodes[i], stdout);
    }
    if (!printed)
        puts("no GPUs");
}

static bool has_node(const Muster__ListNodesAnswer *answer, const char *name)
{
    for (size_t i = 0; i < answer->n_nodes; i++)
        if (strcmp(answer->nodes[i]->name, name) == 0)
            return true;
    return false;
}

static int check_names(const struct args *args, const Muster__ListNodesAnswer *answer)
{
    struct error err = {0};
    for (size_t i = 0; i < args->word_count; i++) {
        if (has_node(answer, args->words[i]))
            continue;
        error_set(&err, E_NOT_FOUND, "unknown node '%s'", args->words[i]);
        error_hint(&err, "`muster nodes` lists all");
        return client_fail(&err);
    }
    return EXIT_DONE;
}

static bool is_named(const struct args *args, const char *node)
{
    bool named = args->word_count == 0;
    for (size_t i = 0; i < args->word_count; i++)
        named = named || strcmp(args->words[i], node) == 0;
    return named;
}

/* Those that the words name, or all without words, are first; returns their number. */
static size_t named_first(const struct args *args, Muster__ListNodesAnswer *answer)
{
    size_t count = 0;
    for (size_t i = 0; i < answer->n_nodes; i++) {
        Muster__Node *node = answer->nodes[i];
        if (!is_named(args, node->name))
            continue;
        answer->nodes[i] = answer->nodes[count];
        answer->nodes[count++] = node;
    }
    return count;
}

static int run_list(const struct args *args)
{
    Muster__ListNodesRequest request = MUSTER__LIST_NODES_REQUEST__INIT;
    Muster__ListNodesAnswer *answer = NULL;
    int code = client_ask(args, "ListNodes", &request, &answer);
    if (code != 0)
        return code;
    code = check_names(args, answer);
    size_t all = answer->n_nodes;
    answer->n_nodes = named_first(args, answer);
    if (code == EXIT_DONE && !client_printed(args, answer)) {
        if (args_flag(args, "gpus"))
            print_links(answer);
        else
            print_nodes(answer);
        fflush(stdout);
        client_tell_refused(stderr, answer->changes_refused);
    }
    answer->n_nodes = all; /* it frees all */
    rpc_message_free(answer);
    return code;
}

static int set_nodes(const struct args *args, const char *action)
{
    struct client client = {0};
    struct error err = {0};
    if (client_open(args, &client, &err))
        return client_fail(&err);
    const char *reason = args_text(args, "reason");
    int code = EXIT_DONE;
    for (size_t i = 0; i < args->word_count; i++) {
        Muster__SetNodeRequest request = MUSTER__SET_NODE_REQUEST__INIT;
        Muster__Node *node = NULL;
        request.name = (char *)args->words[i];
        request.action = (char *)action;
        request.reason = (char *)(reason ? reason : "");
        if (client_call(&client, "SetNode", &request, NULL, &node, &err))
            code = client_fail(&err);
        else if (!client_printed(args, node))
            printf("%s %s\n", node->name,
                   transcode_enum_name(&muster__node__state__descriptor, (int)node->state));
        rpc_message_free(node);
    }
    client_close(&client);
    return code;
}

static int run_cordon(const struct args *args)
{
    return set_nodes(args, "cordon");
}

static int run_drain(const struct args *args)
{
    return set_nodes(args, "drain");
}

static int run_uncordon(const struct args *args)
{
    return set_nodes(args, "uncordon");
}

static int run_rekey(const struct args *args)
{
    return set_nodes(args, "rekey");
}

const struct verb verb_nodes = {.name = "nodes", .command = &list_command, .run = run_list};
const struct verb verb_cordon = {.name = "cordon", .command = &cordon_command, .run = run_cordon};
const struct verb verb_drain = {.name = "drain", .command = &drain_command, .run = run_drain};
const struct verb verb_uncordon = {
    .name = "uncordon", .command = &uncordon_command, .run = run_uncordon};
const struct verb verb_rekey = {.name = "rekey", .command = &rekey_command, .run = run_rekey};
