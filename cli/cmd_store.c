/* muster store check | salvage */
#include <string.h>

#include "cli/client.h"
#include "coordinator/salvage.h"

static const char *const actions[] = {"check", "salvage", NULL};
static const struct args_option options[] = {
    {.name = "action",
     .kind = ARGS_POSITIONAL,
     .required = true,
     .choices = actions,
     .help = "check: is the store whole, and as new as its folder's mark; salvage: copy what can "
             "be read"},
    {.name = "path",
     .kind = ARGS_POSITIONAL,
     .required = true,
     .help = "a coordinator's data folder, or a backup"},
    {.name = "file", .kind = ARGS_POSITIONAL, .help = "with salvage: the copy; must not exist"},
    {0},
};
static const char *const examples[] = {
    "muster store check /var/lib/muster",
    "muster store salvage /var/lib/muster /backup/saved.db",
    "muster coordinator --data /var/lib/muster-new --restore /backup/saved.db",
    NULL,
};
static const struct args_command command = {
    .program = "muster store",
    .summary = "check a coordinator's store, or copy what can be read of a damaged one",
    .description = "Reads files only; needs no coordinator. The copy leaves out rows that cannot "
                   "be read. `muster coordinator --restore` starts from the copy and skips what is "
                   "missing.\n"
                   "\n"
                   "Exit codes: 0 whole or copied, 1 not whole, 2 usage.",
    .options = options,
    .examples = examples,
};

static int run_store(const struct args *args)
{
    char text[512];
    struct error err = {0};
    const char *path = args_text(args, "path"), *file = args_text(args, "file");
    bool salvage = strcmp(args_text(args, "action"), "salvage") == 0;
    if (salvage && !file) {
        error_set(&err, E_INVALID_ARGUMENT, "salvage needs the name of the copy");
        error_hint(&err, "muster store salvage DATA NEW.db");
        (void)client_fail(&err);
        return EXIT_USAGE;
    }
    int rc = salvage ? salvage_copy(path, file, text, sizeof(text), &err)
                     : salvage_check(path, text, sizeof(text), &err);
    if (!rc)
        printf("%s\n", text);
    else
        (void)client_fail(&err);
    if (rc)
        return EXIT_JOB_FAILED;
    return EXIT_DONE;
}

const struct verb verb_store = {.name = "store", .command = &command, .run = run_store};
