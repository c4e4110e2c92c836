/* The verbs of `muster`: one file each, one table (cli/main.c). A verb is a command-line table and
 * a function; it prints, and returns the program's exit code.
 */
#ifndef CLI_VERB_H
#define CLI_VERB_H

#include "common/base/args.h"

enum {
    EXIT_DONE = 0,
    EXIT_JOB_FAILED = 1,
    EXIT_USAGE = 2,
    EXIT_UNREACHABLE = 3, /* cannot reach the coordinator, or not allowed */
};

struct verb {
    const char *name;
    const struct args_command *command;
    int (*run)(const struct args *args);
    /* Instead of `run`, for a verb that looks at all verbs; NULL-terminated. */
    int (*run_among)(const struct args *args, const struct verb *const *all);
    /* Parses its own command line (the daemons do); `command` is then only its summary. */
    int (*main)(int argc, char **argv);
    /* Exit code where the command line is refused; EXIT_USAGE without it. */
    int (*refused)(int argc, char **argv);
};

extern const struct verb verb_up, verb_run, verb_submit, verb_ps, verb_show, verb_logs, verb_why,
    verb_cancel, verb_scale, verb_plan, verb_top, verb_nodes, verb_cordon, verb_drain,
    verb_uncordon, verb_rekey, verb_ckpt, verb_model, verb_events, verb_token, verb_tls,
    verb_report, verb_stacks, verb_shell, verb_exec, verb_forward, verb_backup, verb_store,
    verb_sim, verb_tenant, verb_secret, verb_env, verb_version, verb_completion, verb_coordinator,
    verb_agent, verb_shim;

#endif
