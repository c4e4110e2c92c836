/* muster report: from within a job, what its program does; asks whether it should stop */
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/client.h"
#include "cli/report_socket.h"
#include "common/base/buf.h"
#include "common/base/limits.h"
#include "common/base/name.h"
#include "common/base/parse.h"
#include "common/base/str.h"
#include "common/env/disk_remove.h"

enum {
    LINE_MAX_BYTES = 32 << 10,
    PATIENCE_MS = 5000,         /* for an agent that is being restarted */
    COMMIT_PATIENCE_MS = 30000, /* for the coordinator, too */
};

static const char *const actions[] = {"step",        "metric", "checkpoint", "done",  "latest",
                                      "should-stop", "get",    "put",        "pause", NULL};
static const char *const states[] = {"begin", "whole", "failed", NULL};

static const struct args_option options[] = {
    {.name = "loss", .kind = ARGS_OPTION, .help = "step: the loss of this step"},
    {.name = "of",
     .kind = ARGS_OPTION,
     .type = ARGS_INTEGER,
     .max = STEP_MAX,
     .value_name = "STEPS",
     .help = "step: how many there will be"},
    {.name = "waited",
     .kind = ARGS_OPTION,
     .type = ARGS_DURATION,
     .help = "step: since the last one this rank waited this long for other ranks"},
    {.name = "metric",
     .kind = ARGS_REPEATED,
     .value_name = "NAME=NUMBER",
     .help = "step, metric: a number to keep as a series"},
    {.name = "step",
     .kind = ARGS_OPTION,
     .type = ARGS_INTEGER,
     .max = STEP_MAX,
     .help = "metric, checkpoint: of this step, else of the last one reported"},
    {.name = "state",
     .kind = ARGS_OPTION,
     .choices = states,
     .fallback = "whole",
     .help = "checkpoint: begin before it is saved, whole when it is complete"},
    {.name = "prune",
     .kind = ARGS_FLAG,
     .help = "checkpoint: remove the older ones beyond checkpoint.keep, which else are printed"},
    {.name = "wait",
     .kind = ARGS_OPTION,
     .type = ARGS_DURATION,
     .fallback = "0",
     .help = "get: wait this long for the key"},
    {.name = "why", .kind = ARGS_OPTION, .help = "pause: what the program does instead of steps"},
    {.name = "strict",
     .kind = ARGS_FLAG,
     .help = "fail where there is no agent to report to, such as outside of a job"},
    {.name = "action",
     .kind = ARGS_POSITIONAL,
     .required = true,
     .choices = actions,
     .help = "what to report, or to ask"},
    {.name = "what",
     .kind = ARGS_POSITIONAL,
     .value_name = "WORD",
     .help = "the number of completed steps, the checkpoint's path, the key, or how long the pause "
             "is"},
    {.name = "value", .kind = ARGS_POSITIONAL, .help = "put: the value"},
    {0},
};
static const char *const examples[] = {
    "muster report step 120 --loss 2.1 --of 1000 --metric lr=0.001",
    "muster report checkpoint ckpt/step-120 --step 120",
    "resume=$(muster report latest) && python train.py --resume \"$resume\"",
    "if muster report should-stop; then exit 0; fi",
    "muster report get id --wait 1m",
    NULL,
};
static const struct args_command command = {
    .program = "muster report",
    .summary = "within a job: report steps and checkpoints",
    .description =
        "For shell scripts and programs in any language that run as a worker; docs/report.md has "
        "the protocol. It needs no token. should-stop, latest and get exit with 0 for yes and 1 "
        "for no. Outside of a job everything else does nothing, says so and exits with 0, or with "
        "3 if --strict is given.",
    .options = options,
    .examples = examples,
};

static int refuse(struct error *err, const char *field, const char *text)
{
    error_field(err, "%s", field);
    return error_set(err, E_INVALID_ARGUMENT, "%s", text);
}

/* Numbers that JSON lacks are texts, and the agent judges other texts. */
static void put_number(struct buf *line, const char *name, const char *text)
{
    double value;
    (void)buf_json_string(line, name, strlen(name));
    (void)buf_str(line, ": ");
    if (parse_f64(text, &value, NULL))
        (void)buf_json_string(line, text, strlen(text));
    else
        (void)buf_str(line, text);
}

static void put_text(struct buf *line, const char *name, const char *text)
{
    (void)buf_printf(line, ", \"%s\": ", name);
    (void)buf_json_string(line, text, strlen(text));
}

static int put_metrics(struct buf *line, const struct args *args, struct error *err)
{
    const char *pair;
    (void)buf_str(line, ", \"metrics\": {");
    for (size_t i = 0; (pair = args_repeated(args, "metric", i)); i++) {
        char name[METRIC_NAME_MAX + 1];
        const char *equals = strchr(pair, '=');
        if (!equals || str_printf(name, sizeof(name), "%.*s", (int)(equals - pair), pair))
            return refuse(err, "metric",
                          "--metric is NAME=NUMBER, with a name of at most 63 bytes");
        (void)buf_str(line, i ? ", " : "");
        put_number(line, name, equals + 1);
    }
    (void)buf_char(line, '}');
    return 0;
}

static int put_step(struct buf *line, const struct args *args, struct error *err)
{
    int64_t step;
    const char *text = args_text(args, "what");
    if (!text)
        return refuse(err, "what", "step needs the number of completed steps");
    int rc = parse_i64(text, 0, STEP_MAX, &step, err);
    if (rc)
        return rc;
    (void)buf_printf(line, ", \"step\": %s", text);
    if (args_given(args, "of"))
        (void)buf_printf(line, ", \"total_steps\": %lld", (long long)args_integer(args, "of"));
    if (args_given(args, "waited"))
        (void)buf_printf(line, ", \"waited_s\": %.3f", (double)args_integer(args, "waited") / 1000);
    if (args_given(args, "loss")) {
        (void)buf_str(line, ", ");
        put_number(line, "loss", args_text(args, "loss"));
    }
    return put_metrics(line, args, err);
}

/* Bytes of a file, or of all files of a folder. */
static int walk_size(const char *path, uint64_t *ret, struct error *err)
{
    char *const roots[] = {(char *)(uintptr_t)path, NULL};
    FTS *walk = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    bool there = false;
    *ret = 0;
    for (FTSENT *entry; walk && (entry = fts_read(walk));) {
        there = there || entry->fts_info == FTS_F || entry->fts_info == FTS_D;
        if (entry->fts_info == FTS_F)
            *ret += (uint64_t)entry->fts_statp->st_size;
    }
    if (walk)
        fts_close(walk);
    return there ? 0 : error_set(err, E_NOT_FOUND, "there is no checkpoint %s", path);
}

static int put_checkpoint(struct buf *line, const struct args *args, struct error *err)
{
    const char *path = args_text(args, "what"), *state = args_text(args, "state");
    if (!path)
        return refuse(err, "what", "checkpoint needs its path");
    put_text(line, "path", path);
    put_text(line, "state", state);
    if (strcmp(state, "whole") != 0)
        return 0;
    uint64_t bytes;
    int rc = walk_size(path, &bytes, err);
    if (!rc)
        (void)buf_printf(line, ", \"bytes\": %llu", (unsigned long long)bytes);
    return rc;
}

static int put_key(struct buf *line, const struct args *args, bool set, struct error *err)
{
    const char *value = args_text(args, "value");
    if (!args_text(args, "what") || (set && !value))
        return refuse(err, "what", set ? "put needs a key and a value" : "get needs a key");
    put_text(line, "key", args_text(args, "what"));
    if (set)
        put_text(line, "value", value);
    else
        (void)buf_printf(line, ", \"wait_s\": %.3f", (double)args_integer(args, "wait") / 1000);
    return 0;
}

static int put_pause(struct buf *line, const struct args *args, struct error *err)
{
    int64_t for_ms = 0;
    const char *text = args_text(args, "what");
    if (!text)
        return refuse(err, "what", "pause needs how long it is, for example 10m");
    int rc = parse_duration(text, &for_ms, err);
    if (rc)
        return rc;
    (void)buf_printf(line, ", \"for_s\": %.3f", (double)for_ms / 1000);
    if (args_given(args, "why"))
        put_text(line, "why", args_text(args, "why"));
    return 0;
}

static int make_line(struct buf *line, const struct args *args, struct error *err)
{
    const char *action = args_text(args, "action");
    int rc = 0;
    (void)buf_printf(line, "{\"id\": 1, \"do\": \"%s\"",
                     strcmp(action, "should-stop") == 0 ? "should_stop" : action);
    if (strcmp(action, "step") != 0 && args_given(args, "step"))
        (void)buf_printf(line, ", \"step\": %lld", (long long)args_integer(args, "step"));
    if (strcmp(action, "step") == 0)
        rc = put_step(line, args, err);
    else if (strcmp(action, "metric") == 0)
        rc = put_metrics(line, args, err);
    else if (strcmp(action, "checkpoint") == 0)
        rc = put_checkpoint(line, args, err);
    else if (strcmp(action, "get") == 0 || strcmp(action, "put") == 0)
        rc = put_key(line, args, action[0] == 'p', err);
    else if (strcmp(action, "pause") == 0)
        rc = put_pause(line, args, err);
    (void)buf_char(line, '}');
    if (!rc && buf_failed(line))
        rc = error_set(err, E_INVALID_ARGUMENT, "a report has at most %d bytes", LINE_MAX_BYTES);
    return rc;
}

/* Only neighbours of the checkpoint just saved can be beyond `keep`. */
static void prune(const struct args *args, const struct tree *paths)
{
    const char *path = args_text(args, "what"), *slash = strrchr(path, '/');
    size_t folder = slash ? (size_t)(slash - path) + 1 : 0;
    const struct tree *node;
    tree_each(node, paths) {
        const char *old = node->kind == TREE_STRING ? node->string : "";
        bool beside = strncmp(old, path, folder) == 0 && !strchr(old + folder, '/') &&
                      old[folder] && old[folder] != '.' && strcmp(old, path) != 0;
        if (args_flag(args, "prune") && beside)
            (void)disk_remove(old);
        else
            printf("%s\n", old);
    }
}

static bool is_true(const struct tree *answer, const char *name)
{
    const struct tree *node = tree_get(answer, name);
    return node && node->kind == TREE_BOOL && node->boolean;
}

/* What was asked for, on stdout, and the exit code. */
static int show(const struct args *args, const struct tree *answer)
{
    const char *action = args_text(args, "action");
    const char *name = strcmp(action, "latest") == 0 ? "path" : "value";
    if (strcmp(action, "should-stop") == 0)
        return is_true(answer, "stop") ? 0 : 1;
    if (strcmp(action, "latest") == 0 || strcmp(action, "get") == 0) {
        const struct tree *node = tree_get(answer, name);
        if (!node || node->kind != TREE_STRING)
            return 1;
        printf("%s\n", node->string);
    } else if (strcmp(action, "checkpoint") == 0 && tree_get(answer, "prune")) {
        prune(args, tree_get(answer, "prune"));
    }
    return 0;
}

static bool asks(const char *action)
{
    return strcmp(action, "should-stop") == 0 || strcmp(action, "latest") == 0 ||
           strcmp(action, "get") == 0;
}

/* A script that trains continues where no agent listens: a question's answer is then no. */
static int without_agent(const struct args *args, const char *why)
{
    const char *action = args_text(args, "action");
    fprintf(stderr, "muster report: %s; nothing was reported\n", why);
    if (args_flag(args, "strict"))
        return EXIT_UNREACHABLE;
    return asks(action) ? 1 : 0;
}

/* What a script must know to be lost. */
static bool commits(const struct args *args)
{
    const char *action = args_text(args, "action");
    return strcmp(action, "checkpoint") == 0 || strcmp(action, "put") == 0 ||
           strcmp(action, "get") == 0;
}

static int64_t patience_ms(const struct args *args)
{
    return (commits(args) ? COMMIT_PATIENCE_MS : PATIENCE_MS) + args_integer(args, "wait");
}

static int run_report(const struct args *args)
{
    const char *path = getenv("MUSTER_REPORT_SOCKET");
    struct error err = {0};
    struct arena arena = {0};
    struct tree *answer = NULL;
    struct buf line;
    bool within = path && path[0];
    int code;
    buf_init(&line, LINE_MAX_BYTES);
    int rc = make_line(&line, args, &err);
    bool asked = !rc && within;
    if (asked)
        rc = report_ask(path, buf_cstr(&line), patience_ms(args), &arena, &answer, &err);
    if (rc && !(asked && rc == E_UNAVAILABLE && !commits(args)))
        code = client_fail(&err);
    else if (rc)
        code = without_agent(args, err.text);
    else if (!within)
        code = without_agent(args, "this is no job of Muster (MUSTER_REPORT_SOCKET is not set)");
    else
        code = show(args, answer);
    buf_fini(&line);
    arena_fini(&arena);
    return code;
}

const struct verb verb_report = {.name = "report", .command = &command, .run = run_report};
