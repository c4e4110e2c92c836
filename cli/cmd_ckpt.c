/* muster ckpt: committed checkpoints of a job */
#include <inttypes.h>

#include "cli/client.h"
#include "cli/table.h"
#include "common/base/parse.h"
#include "common/rpc/message.h"

static const struct args_option options[] = {
    CLIENT_OPTIONS,
    CLIENT_OUTPUT,
    {.name = "job", .kind = ARGS_POSITIONAL, .required = true, .help = "id or name of the job"},
    {0},
};
static const struct args_command command = {
    .program = "muster ckpt",
    .summary = "list the checkpoints a job can resume from",
    .options = options,
};

static int run(const struct args *args)
{
    Muster__GetJobRequest request = MUSTER__GET_JOB_REQUEST__INIT;
    Muster__ListCheckpointsAnswer *answer = NULL;
    request.id = (char *)args_text(args, "job");
    int code = client_ask(args, "ListCheckpoints", &request, &answer);
    if (code != 0)
        return code;
    if (!client_printed(args, answer)) {
        static const char *const titles[] = {">STEP", ">SIZE", ">WORLD", ">GENERATION",
                                             ">AGE",  "PATH",  NULL};
        struct table table;
        table_init(&table, titles);
        for (size_t i = 0; i < answer->n_checkpoints; i++) {
            const Muster__Checkpoint *checkpoint = answer->checkpoints[i];
            char size[FORMAT_MAX], age[FORMAT_MAX];
            table_cell(&table, "%" PRIu64, checkpoint->step);
            table_cell(&table, "%s", format_bytes(checkpoint->size_bytes, size));
            table_cell(&table, "%u", checkpoint->world);
            table_cell(&table, "%" PRIu64, checkpoint->generation);
            table_cell(&table, "%s", age_text(checkpoint->wall_ms, age));
            table_cell(&table, "%s", checkpoint->path);
        }
        table_print(&table, stdout, "no committed checkpoint");
        table_fini(&table);
    }
    rpc_message_free(answer);
    return EXIT_DONE;
}

const struct verb verb_ckpt = {.name = "ckpt", .command = &command, .run = run};
