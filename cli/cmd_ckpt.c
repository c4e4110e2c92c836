/* muster ckpt: committed checkpoints of a job, and their weights for other programs */
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/client.h"
#include "cli/table.h"
#include "common/base/parse.h"
#include "common/base/str.h"
#include "common/rpc/message.h"
#include "libworker/checkpoint/file.h"
#include "libworker/checkpoint/folder.h"
#include "libworker/checkpoint/list.h"
#include "libworker/checkpoint/load.h"
#include "libworker/checkpoint/numbers.h"
#include "libworker/pretrained/pretrained.h"

enum { CONFIG_MAX_BYTES = 1 << 20 };

static const char *const formats[] = {"f32", "f16", "bf16", NULL};
static const char *const also_verbs[] = {"verify", "export", NULL};
static const struct args_option options[] = {
    CLIENT_OPTIONS,
    CLIENT_OUTPUT,
    {.name = "format",
     .kind = ARGS_OPTION,
     .choices = formats,
     .fallback = "f32",
     .help = "export: type of the elements"},
    {.name = "file-size",
     .kind = ARGS_OPTION,
     .type = ARGS_BYTES,
     .fallback = "5GiB",
     .help = "export: size limit of a file; a larger tensor has a file of its own; 0 is no limit"},
    {.name = "model",
     .kind = ARGS_OPTION,
     .value_name = "N",
     .type = ARGS_INTEGER,
     .min = 1,
     .max = NUMBERS_UNITS_MAX,
     .help = "export: which model of a checkpoint of several; 1 is the first given to wk_prepare"},
    {.name = "config",
     .kind = ARGS_OPTION,
     .value_name = "FILE",
     .help = "export: config.json to put beside the weights, instead of the checkpoint's"},
    {.name = "job",
     .kind = ARGS_POSITIONAL,
     .required = true,
     .offers = also_verbs,
     .help = "id or name of the job; or `export` or `verify`"},
    {.name = "folder",
     .kind = ARGS_POSITIONAL,
     .help = "export: a checkpoint's folder; verify: the same, or a folder of checkpoints"},
    {.name = "out", .kind = ARGS_POSITIONAL, .help = "export: folder to make"},
    {0},
};
static const char *const examples[] = {
    "muster ckpt gpt-kjv",
    "muster ckpt verify /shared/ckpt",
    "muster ckpt export /shared/ckpt/step-00002000 gpt-kjv-hf --format bf16",
    "muster ckpt export /shared/ckpt/step-00002000 student --model 2",
    NULL,
};
static const struct args_command command = {
    .program = "muster ckpt",
    .summary = "list the checkpoints a job can resume from; verify them; export one's weights",
    .description =
        "`export` merges the weights of a checkpoint into HuggingFace's files: model.safetensors, "
        "or several files and an index. The number of ranks that wrote it does not matter. The "
        "tensors have the names that transformers uses for GPT-2, Llama, Mistral and Qwen. "
        "config.json is the checkpoint's own, or the file of --config. `verify` reads every byte "
        "of a checkpoint, or of all checkpoints in a folder, and compares the digests. It exits "
        "with 1 if one is damaged. Neither needs a coordinator.",
    .options = options,
    .examples = examples,
};

static int export_weights(const struct args *args)
{
    struct error err = {0};
    char *config = NULL;
    bool has_config = false;
    size_t size;
    const char *format = args_text(args, "format"), *file = args_text(args, "config");
    struct pretrained_export what = {
        .checkpoint = args_text(args, "folder"),
        .path = args_text(args, "out"),
        .model = (int)args_integer(args, "model"),
        .options = {.file_bytes = (uint64_t)args_integer(args, "file-size")},
    };
    for (int i = 0; formats[i]; i++)
        if (strcmp(formats[i], format) == 0)
            what.options.format =
                (enum wk_format[]){WK_FORMAT_F32, WK_FORMAT_F16, WK_FORMAT_BF16}[i];
    int rc = 0;
    if (!what.checkpoint || !what.path) {
        error_set(&err, E_INVALID_ARGUMENT,
                  "export needs a checkpoint's folder and a folder to make");
        client_fail(&err);
        return EXIT_USAGE;
    }
    if (file)
        rc = file_read(AT_FDCWD, file, CONFIG_MAX_BYTES, &config, &size, &err);
    what.config = config;
    if (!rc)
        rc = pretrained_export(&what, &has_config, &err);
    free(config);
    if (rc) {
        client_fail(&err);
        return EXIT_JOB_FAILED;
    }
    if (!has_config)
        fprintf(stderr, "muster: the weights were written without a config.json, because the "
                        "checkpoint has none: its model is of no such family, or an older "
                        "Muster wrote it; --config FILE adds one\n");
    printf("%s\n", what.path);
    return EXIT_DONE;
}

static bool is_whole(const char *path)
{
    struct error err = {0};
    if (checkpoint_verify(path, &err)) {
        client_fail(&err);
        return false;
    }
    printf("%s: whole\n", path);
    return true;
}

/* One checkpoint by its name, or all in a folder: the oldest first. */
static int verify(const struct args *args)
{
    struct error err = {0};
    char path[CHECKPOINT_PATH_MAX], folder[CHECKPOINT_PATH_MAX];
    int64_t *steps = NULL;
    int count = 0, damaged = 0;
    const char *given = args_text(args, "folder");
    if (!given || str_copy(folder, sizeof(folder), given)) {
        error_set(&err, E_INVALID_ARGUMENT, "verify needs a folder");
        client_fail(&err);
        return EXIT_USAGE;
    }
    for (size_t end = strlen(folder); end > 1 && folder[end - 1] == '/'; end--)
        folder[end - 1] = '\0';
    if (checkpoint_step_of(folder) >= 0)
        return is_whole(folder) ? EXIT_DONE : EXIT_JOB_FAILED;
    int rc = checkpoint_list(folder, &steps, &count, &err);
    if (!rc && count == 0)
        rc = error_set(&err, E_NOT_FOUND, "%s has no checkpoint", folder);
    for (int i = 0; !rc && i < count; i++) {
        if (checkpoint_path(folder, steps[i], path) || !is_whole(path))
            damaged++;
    }
    free(steps);
    if (rc)
        client_fail(&err);
    if (rc || damaged)
        return EXIT_JOB_FAILED;
    return EXIT_DONE;
}

static int run_ckpt(const struct args *args)
{
    if (strcmp(args_text(args, "job"), "verify") == 0)
        return verify(args);
    if (strcmp(args_text(args, "job"), "export") == 0)
        return export_weights(args);
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

const struct verb verb_ckpt = {.name = "ckpt", .command = &command, .run = run_ckpt};
