/* muster backup */
#include <inttypes.h>

#include "cli/client.h"
#include "common/env/paths.h"
#include "common/rpc/message.h"

static const struct args_option options[] = {
    CLIENT_OPTIONS,
    CLIENT_OUTPUT,
    {.name = "file",
     .kind = ARGS_POSITIONAL,
     .required = true,
     .help = "on the coordinator's machine; must not exist"},
    {0},
};
static const char *const examples[] = {"muster backup /backup/muster-$(date +%F).db", NULL};
static const struct args_command command = {
    .program = "muster backup",
    .summary = "copy the coordinator's store while it works",
    .description = "The copy has jobs, nodes, events, tenants, hashes of tokens and the audit "
                   "trail. It does not have the output of workers. `muster coordinator --restore "
                   "FILE` starts from it.",
    .options = options,
    .examples = examples,
};

static int run_backup(const struct args *args)
{
    enum { BACKUP_TIMEOUT_MS = 600000 };
    char path[1024], size[FORMAT_MAX];
    struct client client = {0};
    struct error err = {0};
    Muster__BackupRequest request = MUSTER__BACKUP_REQUEST__INIT;
    Muster__BackupAnswer *answer = NULL;
    struct rpc_options how = {.timeout_ms = BACKUP_TIMEOUT_MS};
    int rc = paths_absolute(path, sizeof(path), args_text(args, "file"), &err);
    request.path = path;
    if (!rc)
        rc = client_open(args, &client, &err);
    if (!rc)
        rc = client_call(&client, "Backup", &request, &how, &answer, &err);
    if (!rc && !client_printed(args, answer))
        printf("%s, %s\n", answer->path, format_bytes(answer->size_bytes, size));
    rpc_message_free(answer);
    client_close(&client);
    if (rc)
        return client_fail(&err);
    return EXIT_DONE;
}

const struct verb verb_backup = {.name = "backup", .command = &command, .run = run_backup};
