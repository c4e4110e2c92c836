/* muster version: this program's, and the coordinator's if one answers */
#include <string.h>

#include "cli/client.h"
#include "cli/version.h"
#include "common/rpc/message.h"

static const struct args_option options[] = {
    CLIENT_OPTIONS,
    CLIENT_OUTPUT,
    {.name = "client", .kind = ARGS_FLAG, .help = "do not ask the coordinator"},
    {0},
};
static const char *const examples[] = {"muster version", NULL};
static const struct args_command command = {
    .program = "muster version",
    .summary = "versions of this program and of the coordinator",
    .options = options,
    .examples = examples,
};

static int run_version(const struct args *args)
{
    bool plain = strcmp(args_text(args, "output"), "table") == 0;
    if (plain)
        printf("muster %s (%s)\n", MUSTER_VERSION, MUSTER_COMMIT);
    if (args_flag(args, "client"))
        return EXIT_DONE;
    Muster__VersionRequest request = MUSTER__VERSION_REQUEST__INIT;
    Muster__VersionAnswer *answer = NULL;
    struct client client = {0};
    struct error err = {0};
    struct rpc_options once = {.timeout_ms = 2000, .retry = true};
    int rc = client_open(args, &client, &err);
    if (!rc)
        rc = client_call(&client, "Version", &request, &once, &answer, &err);
    if (!rc && !client_printed(args, answer))
        printf("coordinator %s (%s) at %s, cluster %s, protocol %u\n", answer->version,
               answer->commit, client.url, answer->cluster, answer->protocol);
    rpc_message_free(answer);
    client_close(&client);
    if (rc && plain)
        printf("coordinator: %s\n", err.text);
    return !rc || plain ? EXIT_DONE : client_fail(&err);
}

const struct verb verb_version = {.name = "version", .command = &command, .run = run_version};
