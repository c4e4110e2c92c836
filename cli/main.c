/* `muster`: finds the verb, parses its table, runs it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/client.h"
#include "cli/table.h"
#include "common/base/str.h"

enum { SHORT_WORD = 3 };

static const struct verb *const all_verbs[] = {
    &verb_up,     &verb_run,    &verb_submit,  &verb_ps,         &verb_show,        &verb_logs,
    &verb_stacks, &verb_shell,  &verb_exec,    &verb_forward,    &verb_why,         &verb_cancel,
    &verb_scale,  &verb_plan,   &verb_ckpt,    &verb_model,      &verb_events,      &verb_top,
    &verb_nodes,  &verb_cordon, &verb_drain,   &verb_uncordon,   &verb_rekey,       &verb_tenant,
    &verb_token,  &verb_secret, &verb_tls,     &verb_backup,     &verb_store,       &verb_sim,
    &verb_env,    &verb_report, &verb_version, &verb_completion, &verb_coordinator, &verb_agent,
    &verb_shim,   NULL,
};

static void print_help(FILE *out)
{
    fprintf(out, "%smuster%s: train on many devices and machines as on one\n\n", colour_bold(out),
            colour_off(out));
    fprintf(out, "usage: muster VERB [OPTIONS]      muster VERB --help has the options\n"
                 "\n");
    for (const struct verb *const *verb = all_verbs; *verb; verb++)
        fprintf(out, "  %-12s %s\n", (*verb)->name, (*verb)->command->summary);
    fprintf(out, "\nStart with `muster up` in one terminal and `muster run -- COMMAND` in another."
                 "\nExit codes: 0 done, 1 the job failed, 2 usage, 3 cannot reach or not allowed."
                 "\n");
}

static const struct verb *find_verb(const char *name)
{
    for (const struct verb *const *verb = all_verbs; *verb; verb++)
        if (strcmp((*verb)->name, name) == 0)
            return *verb;
    return NULL;
}

/* Words of other tools for what a verb here does. */
static const struct {
    const char *word, *verb;
} elsewhere[] = {
    {"kill", "cancel"},     {"stop", "cancel"},     {"rm", "cancel"},
    {"remove", "cancel"},   {"delete", "cancel"},   {"del", "cancel"},
    {"abort", "cancel"},    {"scancel", "cancel"},  {"status", "ps"},
    {"list", "ps"},         {"ls", "ps"},           {"jobs", "ps"},
    {"queue", "ps"},        {"squeue", "ps"},       {"history", "events"},
    {"sacct", "ps"},        {"describe", "show"},   {"get", "show"},
    {"info", "show"},       {"inspect", "show"},    {"start", "run"},
    {"ssh", "shell"},       {"attach", "shell"},    {"tunnel", "forward"},
    {"srun", "run"},        {"launch", "run"},      {"create", "submit"},
    {"sbatch", "submit"},   {"apply", "submit"},    {"resize", "scale"},
    {"sinfo", "nodes"},     {"tail", "logs"},       {"output", "logs"},
    {"explain", "why"},     {"checkpoint", "ckpt"}, {"checkpoints", "ckpt"},
    {"resume", "uncordon"}, {"serve", "up"},        {"server", "coordinator"},
    {"worker", "agent"},
};

static const char *meant_verb(const char *name)
{
    const char *names[sizeof(all_verbs) / sizeof(all_verbs[0])] = {0};
    for (size_t i = 0; i < sizeof(elsewhere) / sizeof(elsewhere[0]); i++)
        if (strcmp(elsewhere[i].word, name) == 0)
            return elsewhere[i].verb;
    for (size_t i = 0; all_verbs[i]; i++)
        names[i] = all_verbs[i]->name;
    const char *nearest = str_nearest(name, names);
    /* In such a short word another first letter makes another word. */
    bool far = nearest && strlen(name) <= SHORT_WORD && nearest[0] != name[0];
    return far ? NULL : nearest;
}

static int unknown_verb(const char *name)
{
    if (name[0] == '-') {
        fprintf(stderr,
                "muster: '%s' is before the verb\n"
                "        options are after it: muster VERB %s ...\n",
                name, name);
        return EXIT_USAGE;
    }
    const char *meant = meant_verb(name);
    fprintf(stderr, "muster: '%s' is not a verb", name);
    if (meant)
        fprintf(stderr, "; did you mean '%s'?\n", meant);
    else
        fprintf(stderr, "; `muster help` lists them\n");
    return EXIT_USAGE;
}

static int run_verb(const struct verb *verb, int argc, char **argv)
{
    if (verb->main)
        return verb->main(argc, argv);
    struct args args;
    struct error err = {0};
    if (args_parse(verb->command, argc, argv, &args, &err)) {
        client_fail(&err);
        return verb->refused ? verb->refused(argc, argv) : EXIT_USAGE;
    }
    int code;
    if (args.help) {
        struct buf help = {0};
        args_help(verb->command, &help);
        fputs(buf_cstr(&help), stdout);
        buf_fini(&help);
        code = EXIT_DONE;
    } else {
        code = verb->run ? verb->run(&args) : verb->run_among(&args, all_verbs);
    }
    args_fini(&args);
    return code;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "help";
    if (strcmp(name, "help") == 0 || strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        const struct verb *verb = argc > 2 ? find_verb(argv[2]) : NULL;
        if (verb)
            return run_verb(verb, 1, (char *[]){(char *)"--help", NULL});
        if (argc > 2)
            return unknown_verb(argv[2]);
        print_help(argc > 1 ? stdout : stderr);
        return argc > 1 ? EXIT_DONE : EXIT_USAGE;
    }
    if (strcmp(name, "--version") == 0)
        name = "version";
    const struct verb *verb = find_verb(name);
    if (!verb)
        return unknown_verb(name);
    int code = run_verb(verb, argc - 2, argv + 2);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "muster: the output could not be written: %s\n", strerror(errno));
        code = code ? code : EXIT_JOB_FAILED;
    }
    return code;
}
