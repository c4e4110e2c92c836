#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "common/rpc/message.h"
#include "common/rpc/spec.h"
#include "common/rpc/training.h"
#include "common/rpc/transcode.h"
#include "common/settings/setting.h"

static Muster__JobSpec *spec_of(const char *text)
{
    Muster__JobSpec *spec = NULL;
    struct error err;
    cr_assert_eq(spec_parse("job.yaml", text, strlen(text), &spec, &err), 0, "%s", err.text);
    return spec;
}

static struct error refused(const char *text)
{
    Muster__JobSpec *spec = NULL;
    struct error err = {0};
    cr_assert_neq(spec_parse("job.yaml", text, strlen(text), &spec, &err), 0, "%s", text);
    cr_assert_null(spec);
    return err;
}

static void becomes(const char *text, const char *json)
{
    Muster__JobSpec *spec = spec_of(text);
    struct buf out = {0};
    char whole[4096];
    cr_assert_eq(transcode_to_json(&spec->base, NULL, &out, NULL), 0);
    /* The last of every spec: their defaults. */
    (void)snprintf(whole, sizeof(whole), "%.*s,\"grace\":\"10s\",\"stop_signal\":\"TERM\"}",
                   (int)strlen(json) - 1, json);
    cr_expect_str_eq(buf_cstr(&out), whole);
    buf_fini(&out);
    rpc_message_free(spec);
}

#define DEFAULTS_A                                                                                 \
    "\"nodes\":{\"min\":1,\"max\":1},\"workers_per_node\":1,"                                      \
    "\"resources\":{\"slots\":1,\"cpus\":1.0},\"priority\":\"normal\","
#define DEFAULTS_OF(on_failure)                                                                    \
    "\"restart\":{\"max\":5,\"backoff\":\"1s..1m\",\"on_no_progress\":\"stop\",\"on_failure\":"    \
    "\"" on_failure "\"},\"elastic\":\"in_place\""
#define DEFAULTS_B       DEFAULTS_OF("stop")
#define DEFAULTS_LASTING DEFAULTS_OF("retry") /* with a checkpoint, or elastic */

Test(spec, an_empty_spec_has_all_defaults)
{
    becomes("{}", "{\"tenant\":\"default\"," DEFAULTS_A DEFAULTS_B "}");
}

Test(spec, the_example_of_the_design)
{
    becomes("name: gpt-kjv\n"
            "tenant: default\n"
            "command: [build/examples/gpt, --data, kjv.txt]\n"
            "nodes: {min: 1, max: 2}            # or a number\n"
            "workers_per_node: 1\n"
            "resources: {slots: 1, cpus: 1, memory: 2GiB}      # of each worker\n"
            "priority: normal\n"
            "max_runtime: 2h\n"
            "restart: {max: 5, backoff: 1s..1m, on_no_progress: stop}\n"
            "elastic: in_place\n"
            "checkpoint: {dir: /shared/ckpt/gpt, every: 200 steps, keep: 3}\n"
            "constraints: {gpu.model: H200}\n"
            "topology: rack\n"
            "env: {KEY: value}\n"
            "training: {strategy: ddp, mixed_precision: bf16, gradient_accumulation_steps: 4, "
            "mesh: {dp: 2}}\n",
            "{\"name\":\"gpt-kjv\",\"tenant\":\"default\","
            "\"command\":[\"build/examples/gpt\",\"--data\",\"kjv.txt\"],"
            "\"nodes\":{\"min\":1,\"max\":2},\"workers_per_node\":1,"
            "\"resources\":{\"slots\":1,\"cpus\":1.0,\"memory\":\"2GiB\"},"
            "\"priority\":\"normal\",\"max_runtime\":\"2h\"," DEFAULTS_LASTING ","
            "\"checkpoint\":{\"dir\":\"/shared/ckpt/gpt\",\"every\":\"200 steps\",\"keep\":3},"
            "\"constraints\":{\"gpu.model\":\"H200\"},\"topology\":\"rack\","
            "\"env\":{\"KEY\":\"value\"},\"training\":{\"strategy\":\"ddp\","
            "\"mixed_precision\":\"bf16\",\"gradient_accumulation_steps\":4,\"mesh\":{\"dp\":2}}}");
}

Test(spec, short_forms_are_widened)
{
    Muster__JobSpec *spec = spec_of("nodes: 3\ncommand: echo $HOME\npriority: -5\nmax_runtime: 90\n"
                                    "resources: {memory: 1073741824}\nrestart: 2\nelastic: false\n"
                                    "checkpoint: /ckpt\nenv: {A: 1, B: 0.5, C: true}\n");
    cr_assert_eq(spec->nodes->min, 3);
    cr_assert_eq(spec->nodes->max, 3);
    cr_assert_eq(spec->n_command, 3);
    cr_assert_str_eq(spec->command[0], "/bin/sh");
    cr_assert_str_eq(spec->command[2], "echo $HOME");
    cr_assert_str_eq(spec->priority, "-5");
    cr_assert_str_eq(spec->max_runtime, "90s");
    cr_assert_str_eq(spec->resources->memory, "1073741824");
    cr_assert_eq(spec->resources->slots, 1);
    cr_assert_eq(spec->restart->max, 2);
    cr_assert_str_eq(spec->restart->backoff, "1s..1m");
    cr_assert_str_eq(spec->elastic, "off");
    cr_assert_str_eq(spec->checkpoint->dir, "/ckpt");
    cr_assert_str_eq(spec->checkpoint->every, "200 steps");
    cr_assert_eq(spec->checkpoint->keep, 3);
    cr_assert_str_eq(spec->env[1]->value, "0.5");
    rpc_message_free(spec);
}

/* What the schema has always had a field for stays there, for those who read it; 0 and what else a
 * field cannot say, and every other setting of the table, are in the map. */
Test(spec, training_takes_every_setting_by_its_name)
{
    becomes("training:\n  strategy: ddp\n  seed: 0\n  clip_grad_norm: 0.5\n"
            "  ddp: {hook: fp16, find_unused: true}\n  fsdp.prefetch: 0\n"
            "  loss_scale: {initial: 1024}\n  mesh: {dpReplicate: 2, dp_shard: 2}\n"
            "checkpoint: {dir: /c, every: 10m, keep: 0, patience: 5m}\n",
            "{\"tenant\":\"default\"," DEFAULTS_A DEFAULTS_LASTING
            ",\"checkpoint\":{\"dir\":\"/c\",\"every\":\"10m\"},"
            "\"training\":{\"strategy\":\"ddp\",\"mesh\":{\"dp_replicate\":2,\"dp_shard\":2},"
            "\"clip_grad_norm\":0.5,\"settings\":{\"checkpoint.patience\":\"5m\","
            "\"ddp.find_unused\":\"true\",\"ddp.hook\":\"fp16\",\"fsdp.prefetch\":\"0\","
            "\"loss_scale.initial\":\"1024\",\"seed\":\"0\"}}}");
    /* As it is shown it can be given again. */
    becomes("{\"training\":{\"mixedPrecision\":\"bf16\",\"settings\":{\"ddp.hook\":\"fp16\","
            "\"seed\":\"7\"}}}",
            "{\"tenant\":\"default\"," DEFAULTS_A DEFAULTS_B
            ",\"training\":{\"mixed_precision\":\"bf16\",\"seed\":\"7\","
            "\"settings\":{\"ddp.hook\":\"fp16\"}}}");
}

Test(spec, every_setting_of_a_job_goes_through_and_comes_out_as_it_was_said)
{
    for (int i = 0; i < SETTINGS_COUNT; i++) {
        const struct setting_row *row = &setting_rows[i];
        const char *value = *row->fallback           ? row->fallback
                            : i == SETTING_COMM_WAYS ? "direct:8K chain"
                                                     : "latest";
        char text[256];
        if (row->use != SETTING_OF_JOB)
            continue;
        (void)snprintf(text, sizeof(text), "training: {%s: \"%s\"}\n", row->name, value);
        Muster__JobSpec *spec = spec_of(text);
        struct training_setting *list;
        struct setting_parsed one, other;
        struct arena arena = {0};
        int count;
        cr_assert_eq(training_list(spec->training, &arena, &list, &count, NULL), 0);
        cr_assert_eq(count, 1, "%s", row->name);
        cr_expect_str_eq(list[0].name, row->name);
        cr_assert_eq(setting_parse(i, value, &one, NULL), 0);
        cr_assert_eq(setting_parse(i, list[0].value, &other, NULL), 0);
        cr_expect_eq(one.integer, other.integer, "%s", row->name);
        cr_expect_eq(one.number, other.number, "%s", row->name);
        arena_fini(&arena);
        rpc_message_free(spec);
    }
}

Test(spec, a_setting_is_there_once)
{
    static const char twice[] = "{\"seed\":\"4\",\"settings\":{\"seed\":\"3\"}}";
    ProtobufCMessage *message;
    struct training_setting *list;
    struct arena arena = {0};
    struct error err = {0};
    int count;
    cr_assert_eq(
        transcode_from_json(twice, strlen(twice), &muster__training__descriptor, &message, NULL),
        0);
    cr_assert_eq(training_list((Muster__Training *)message, &arena, &list, &count, &err),
                 E_INVALID_ARGUMENT);
    cr_expect_str_eq(err.field, "training.seed");
    cr_assert_eq(training_list(NULL, &arena, &list, &count, &err), 0);
    cr_expect_eq(count, 0);
    arena_fini(&arena);
    rpc_message_free(message);
}

/* What `muster show -o json` prints, with every default, means the same when given again. */
Test(spec, a_job_as_it_is_shown_can_be_given_again)
{
    Muster__JobSpec *spec = spec_of("command: [a]\ntraining: {strategy: ddp, seed: 0}\n"), *again;
    const struct transcode_output_options all = {.defaults = true};
    struct buf shown = {0}, one = {0}, other = {0};
    cr_assert_eq(transcode_to_json(&spec->base, &all, &shown, NULL), 0);
    again = spec_of(buf_cstr(&shown));
    cr_assert_eq(transcode_to_json(&spec->base, NULL, &one, NULL), 0);
    cr_assert_eq(transcode_to_json(&again->base, NULL, &other, NULL), 0);
    cr_expect_str_eq(buf_cstr(&one), buf_cstr(&other));
    buf_fini(&shown), buf_fini(&one), buf_fini(&other);
    rpc_message_free(spec), rpc_message_free(again);
}

Test(spec, ranges_are_completed)
{
    static const struct {
        const char *text;
        uint32_t min, max;
    } cases[] = {{"nodes: {min: 2}", 2, 2}, {"nodes: {max: 4}", 1, 4}, {"nodes: 2..8", 2, 8},
                 {"nodes: {}", 1, 1},       {"nodes: 2-8", 2, 8},      {"nodes:", 1, 1},
                 {"nodes: '3..3'", 3, 3}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        Muster__JobSpec *spec = spec_of(cases[i].text);
        cr_assert_eq(spec->nodes->min, cases[i].min, "%s", cases[i].text);
        cr_assert_eq(spec->nodes->max, cases[i].max, "%s", cases[i].text);
        rpc_message_free(spec);
    }
}

Test(spec, what_is_given_is_kept)
{
    Muster__JobSpec *spec = spec_of("{\"restart\": {\"max\": 0, \"onNoProgress\": \"retry\"},"
                                    " \"workersPerNode\": 4, \"checkpoint\": {\"every\": 50,"
                                    " \"keep\": 0}}");
    cr_assert_eq(spec->restart->max, 0);
    cr_assert_str_eq(spec->restart->on_no_progress, "retry");
    cr_assert_eq(spec->workers_per_node, 4);
    cr_assert_str_eq(spec->checkpoint->every, "50 steps");
    cr_assert_eq(spec->checkpoint->keep, 0);
    rpc_message_free(spec);
    spec = spec_of("restart: off");
    cr_assert_eq(spec->restart->max, 0);
    rpc_message_free(spec);
}

static void restarts(const char *yaml, const char *on_failure, const char *on_no_progress)
{
    Muster__JobSpec *spec = spec_of(yaml);
    cr_expect_str_eq(spec->restart->on_failure, on_failure, "%s", yaml);
    cr_expect_str_eq(spec->restart->on_no_progress, on_no_progress, "%s", yaml);
    rpc_message_free(spec);
}

/* A job is tried again if it says so, or is made to go on (docs/adr/0010); who says how often gets
 * that. */
Test(spec, restarts_mean_what_they_say)
{
    restarts("command: [a]", "stop", "stop");
    restarts("nodes: 4", "stop", "stop");
    restarts("nodes: 1..4", "retry", "stop");
    restarts("checkpoint: /k", "retry", "stop");
    restarts("restart: 50", "retry", "retry");
    restarts("restart: {max: 50}", "retry", "retry");
    restarts("restart: {max: 50, on_no_progress: stop}", "retry", "stop");
    restarts("restart: {backoff: 1s..2s}", "retry", "stop");
    restarts("restart: {on_no_progress: retry}", "retry", "retry");
    restarts("restart: {on_failure: retry}", "retry", "stop");
    restarts("nodes: 1..4\nrestart: {max: 9, on_failure: stop}", "stop", "retry");
    restarts("restart: off", "stop", "stop");
    restarts("restart: {max: 0}", "stop", "stop");
    restarts("restart: off\ncheckpoint: /k", "retry", "stop");
}

static void says(const char *yaml, const char *text, const char *field, const char *hint)
{
    struct error err = refused(yaml);
    cr_expect_not_null(strstr(err.text, text), "%s: \"%s\" lacks \"%s\"", yaml, err.text, text);
    cr_expect_str_eq(err.field, field);
    cr_expect_not_null(strstr(err.hint, hint), "%s: \"%s\" lacks \"%s\"", yaml, err.hint, hint);
}

Test(spec, an_explicit_zero_is_no_default)
{
    says("nodes: 0\n", "line 1, column 1: nodes must be more than 0", "nodes", "");
    says("nodes: {min: 0, max: 2}\n", "min must be more than 0", "nodes.min", "");
    says("workers_per_node: 0\n", "workers_per_node must be more than 0", "workers_per_node", "");
    says("resources: {slots: 0}\n", "slots must be more than 0", "resources.slots", "");
    says("resources: {cpus: 0.0}\n", "cpus must be more than 0", "resources.cpus", "");
}

Test(spec, an_empty_one_says_so_and_a_byte_order_mark_is_nothing)
{
    says("", "job.yaml: it is empty", "", "");
    says("\xef\xbb\xbf# nothing\n", "job.yaml: it is empty", "", "");
    Muster__JobSpec *spec = spec_of("\xef\xbb\xbfname: a");
    cr_expect_str_eq(spec->name, "a");
    rpc_message_free(spec);
    spec = spec_of("\xef\xbb\xbf {\"name\": \"b\"}");
    cr_expect_str_eq(spec->name, "b");
    rpc_message_free(spec);
}

static void named(const char *command, const char *expected)
{
    char text[256], name[64];
    (void)snprintf(text, sizeof(text), "command: %s\n", command);
    Muster__JobSpec *spec = spec_of(text);
    spec_name_of(spec, name, sizeof(name));
    cr_expect_str_eq(name, expected, "%s: %s", command, name);
    rpc_message_free(spec);
}

Test(spec, a_job_without_a_name_is_called_after_its_program)
{
    named("[build/examples/gpt, --data, kjv.txt]", "gpt");
    named("[/bin/My_Tool]", "my-tool");
    named("[python3, -u, src/train.py, --fast]", "train");
    named("[/usr/bin/python3.12, -m, torch.distributed]", "torch.distributed");
    named("[python3, -c, 'print(1)']", "python3");
    named("[sh, run.sh]", "run");
    named("[bash, -c]", "bash");
    named("/opt/tools/go --far | tee log", "go");
    named("[/]", "j");
}

Test(spec, refusals_name_file_line_path_and_the_nearest_name)
{
    says("name: x\ncomand: [a]\n", "job.yaml: line 2, column 1: unknown key \"comand\"", "comand",
         "did you mean command?");
    says("resources: {gpus: 2}\n", "unknown key \"gpus\"", "resources.gpus", "slots: N}");
    says("gpu: 1\n", "unknown key \"gpu\"", "gpu", "slots: N}");
    says("name: x\nresources:\n  slots: many\n", "line 3, column 3", "resources.slots", "");
    says("nodes: -1\n", "job.yaml: line 1, column 1: the number must be in 0..", "nodes.min", "");
    says("nodes: a few\n", "expected a number of nodes", "nodes", "");
    says("nodes: {min: 4, max: 2}\n", "max (2) is below min (4)", "nodes.max", "");
    says("nodes: [1]\n", "expected a map, found a list", "nodes", "");
    says("restart: [1]\n", "on_failure, on_no_progress}", "restart", "");
    says("training: {stratgy: ddp}\n", "line 1, column 12", "training.stratgy", "strategy");
    says("training:\n  ddp:\n    hok: fp16\n", "line 3, column 5: no setting is called \"ddp.hok\"",
         "training.ddp.hok", "did you mean ddp.hook?");
    says("training:\n  powersgd_rank: 2\n", "line 2", "training.powersgd_rank",
         "did you mean ddp.powersgd_rank?");
    says("training:\n  strategy: zero9\n", "line 2, column 3: strategy: \"zero9\" is none of",
         "training.strategy", "");
    says("training: {fsdp: {prefetch: 9}}\n",
         "line 1, column 19: fsdp.prefetch: ", "training.fsdp.prefetch", "");
    says("training: {checkpoint: {every: 10m}}\n", "checkpoint.every belongs in the job's own",
         "training.checkpoint.every", "beside training");
    says("training: {bind_address: 10.0.0.1}\n", "each machine's own", "training.bind_address", "");
    says("training: {seed: 1, settings: {seed: 2}}\n", "set twice", "training.settings.seed", "");
    says("training: [1]\n", "expected a map of settings, found a list", "training", "");
    says("training: {seed: [1]}\n", "expected one value, found a list", "training.seed", "");
    says("command: [a, [b]]\n", "expected text, found a list", "command[1]", "");
    says("- a\n- b\n", "a job spec is a map of settings, this is a list", "", "");
    says("just text", "a job spec is a map", "", "");
    says("{\"name\": }", "job.yaml", "", "");
    says("a: b: c", "job.yaml", "", "");
}

Test(spec, files_and_their_absence)
{
    char path[] = "/tmp/muster-spec-XXXXXX";
    int fd = mkstemp(path);
    cr_assert(fd >= 0);
    cr_assert_eq(write(fd, "name: filed\n", 12), 12);
    close(fd);
    Muster__JobSpec *spec;
    struct error err;
    cr_assert_eq(spec_read_file(path, &spec, &err), 0);
    cr_assert_str_eq(spec->name, "filed");
    rpc_message_free(spec);
    unlink(path);
    cr_assert_eq(spec_read_file(path, &spec, &err), E_NOT_FOUND);
    cr_assert_not_null(strstr(err.text, path));
    cr_assert_neq(spec_read_file("/tmp", &spec, &err), 0);
    char *large = malloc(SPEC_MAX_BYTES + 2);
    memset(large, '#', SPEC_MAX_BYTES + 1);
    cr_assert_neq(spec_parse(NULL, large, SPEC_MAX_BYTES + 1, &spec, &err), 0);
    free(large);
}
