/* Specifications, ranks, secrets: what is arithmetic. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include "coordinator/model/cluster.h"
#include "coordinator/model/cluster_walk.h"
#include "coordinator/rendezvous/ranks.h"
#include "coordinator/rendezvous/secret.h"

static const char *const command[] = {"train", "--fast"};

static struct spec_input good(void)
{
    return (struct spec_input){
        .json = "{}", .name = "gpt-kjv", .command = command, .command_count = 2};
}

static void expect_bad(const struct spec_input *input, const char *field, const char *hint)
{
    struct spec *spec = NULL;
    struct error err = {0};
    cr_expect_eq(spec_build(input, &spec, &err), E_INVALID_ARGUMENT, "%s", field);
    cr_expect_null(spec);
    cr_expect_str_eq(err.field, field);
    cr_expect(strstr(err.hint, hint), "%s: %s", field, err.hint);
}

Test(spec, defaults_are_those_of_the_design)
{
    struct spec_input input = good();
    struct spec *spec = NULL;
    cr_assert_eq(spec_build(&input, &spec, NULL), 0);
    cr_expect_eq(spec->nodes_min, 1);
    cr_expect_eq(spec->nodes_max, 1);
    cr_expect_eq(spec->workers_per_node, 1);
    cr_expect_eq(spec->resources.slots, 1);
    cr_expect_eq(spec->resources.cpus_milli, 1000);
    cr_expect_eq(spec->restart_max, 5);
    cr_expect_eq(spec->backoff_min_ms, 1000);
    cr_expect_eq(spec->backoff_max_ms, 60000);
    cr_expect_eq(spec->elastic, ELASTIC_IN_PLACE);
    cr_expect(spec->stop_without_progress);
    cr_expect_str_eq(spec->tenant, "default");
    spec_release(spec_hold(spec));
    spec_release(spec);
}

Test(spec, quantities_of_people_become_numbers)
{
    struct spec_input input = good();
    struct spec *spec = NULL;
    input.memory = "2GiB";
    input.cpus = 0.5;
    input.priority = "high";
    input.max_runtime = "2h";
    input.backoff = "5s..2m";
    input.elastic = "restart";
    cr_assert_eq(spec_build(&input, &spec, NULL), 0);
    cr_expect_eq(spec->resources.memory_bytes, INT64_C(2) << 30);
    cr_expect_eq(spec->resources.cpus_milli, 500);
    cr_expect_eq(spec->priority, 100);
    cr_expect_eq(spec->max_runtime_ms, 7200000);
    cr_expect_eq(spec->backoff_max_ms, 120000);
    cr_expect_eq(spec->elastic, ELASTIC_RESTART);
    spec_release(spec);
    input.backoff = "5s-3m";
    cr_assert_eq(spec_build(&input, &spec, NULL), 0);
    cr_expect_eq(spec->backoff_min_ms, 5000);
    cr_expect_eq(spec->backoff_max_ms, 180000);
    spec_release(spec);
}

Test(spec, what_is_wrong_is_named_with_a_hint)
{
    struct spec_input input = good();
    input.name = "GPT";
    expect_bad(&input, "name", "lower-case");
    input = good();
    input.command_count = 0;
    input.name = NULL; /* which would have been the command's */
    expect_bad(&input, "command", "program");
    input = good();
    input.workdir = "project";
    expect_bad(&input, "workdir", "begins with /");
    input = good();
    input.nodes_min = 3;
    input.nodes_max = 2;
    expect_bad(&input, "nodes.min", "above max");
    input = good();
    input.memory = "two gigs";
    expect_bad(&input, "resources.memory", "2GiB");
    input = good();
    input.priority = "urgent";
    expect_bad(&input, "priority", "low, normal, high");
    input = good();
    input.backoff = "1m..1s";
    expect_bad(&input, "restart.backoff", "shorter");
    input = good();
    input.elastic = "in_plac";
    expect_bad(&input, "elastic", "did you mean in_place?");
    input = good();
    input.checkpoint_every = "200 steps";
    expect_bad(&input, "checkpoint.dir", "folder");
    input = good();
    input.checkpoint_dir = "/c";
    input.checkpoint_every = "often";
    expect_bad(&input, "checkpoint.every", "200 steps");
    input = good();
    struct pair setting = {"strategy", "zero3"};
    input.training = &setting;
    input.training_count = 1;
    expect_bad(&input, "training.strategy", "zero");
    setting = (struct pair){"mesh.tp", "2"};
    expect_bad(&input, "training.mesh.tp", "leave it out");
    setting = (struct pair){"mesh.pp", "2"};
    expect_bad(&input, "training.mesh.pp", "leave it out");
    setting = (struct pair){"mesh.cp", "2"};
    expect_bad(&input, "training.mesh.cp", "leave it out");
    setting = (struct pair){"mixed_precision", "fp8"};
    expect_bad(&input, "training.mixed_precision", "leave it out");
    setting = (struct pair){"ddp.hok", "fp16"};
    expect_bad(&input, "training.ddp.hok", "did you mean ddp.hook?");
    setting = (struct pair){"fsdp.prefetch", "9"};
    expect_bad(&input, "training.fsdp.prefetch", "");
    setting = (struct pair){"loss_scale.growth", "1"};
    expect_bad(&input, "training.loss_scale.growth", "");
    setting = (struct pair){"loss_scale.backoff", "1"};
    expect_bad(&input, "training.loss_scale.backoff", "");
    setting = (struct pair){"loss_scale.backoff", "0"};
    expect_bad(&input, "training.loss_scale.backoff", "");
    setting = (struct pair){"comm_ways", "direct:8K sliced:4K chain"};
    expect_bad(&input, "training.comm_ways", "");
    setting = (struct pair){"comm_ways", "fast"};
    expect_bad(&input, "training.comm_ways", "");
    setting = (struct pair){"checkpoint.dir", "/c"};
    expect_bad(&input, "training.checkpoint.dir", "under checkpoint");
    setting = (struct pair){"bind_address", "10.0.0.1"};
    expect_bad(&input, "training.bind_address", "");
}

Test(spec, what_was_accepted_once_by_other_rules_still_loads)
{
    struct spec_input input = good();
    struct spec *spec = NULL;
    struct pair setting = {"strategy", "zero3"}, env = {"MUSTER_STRATGY", "ddp"};
    input.training = &setting, input.training_count = 1;
    input.env = &env, input.env_count = 1;
    input.stored = true;
    cr_assert_eq(spec_build(&input, &spec, NULL), 0);
    spec_release(spec);
}

/* Only where the program may be one of Accelerate's. */
Test(spec, what_accelerate_is_not_told_is_a_warning)
{
    static const char *const python[] = {"/opt/venv/bin/python3.11", "train.py"};
    static const char *const shell[] = {"/bin/sh", "-c", "python3 train.py"};
    static const char *const program[] = {"build/train", "train.py"};
    struct spec_input input = good();
    struct spec *spec = NULL;
    struct pair settings[] = {{"strategy", "zero1"},
                              {"clip_grad_norm", "1"},
                              {"mixed_precision", "bf16"},
                              {"recompute", "true"}};
    input.training = settings, input.training_count = 4;
    input.command = python, input.command_count = 2;
    cr_assert_eq(spec_build(&input, &spec, NULL), 0);
    cr_assert_eq(spec->warnings_count, 1);
    cr_expect(
        strstr(spec->warnings[0], "it must set strategy zero1, clip_grad_norm, recompute itself"),
        "%s", spec->warnings[0]);
    spec_release(spec);
    settings[0].value = "fsdp";
    settings[1] = (struct pair){"fsdp.reshard_after_forward", "false"};
    cr_assert_eq(spec_build(&input, &spec, NULL), 0);
    cr_expect_eq(spec->warnings_count, 0);
    spec_release(spec);
    settings[1] = (struct pair){"resume_from", "/ckpt/old"};
    cr_assert_eq(spec_build(&input, &spec, NULL), 0);
    cr_assert_eq(spec->warnings_count, 1);
    cr_expect(strstr(spec->warnings[0], "resume_from: the program has to continue from it"), "%s",
              spec->warnings[0]);
    spec_release(spec);
    settings[0].value = "zero1";
    cr_assert_eq(spec_build(&input, &spec, NULL), 0);
    cr_expect(strstr(spec->warnings[0], "it must set strategy zero1, recompute itself"), "%s",
              spec->warnings[0]);
    spec_release(spec);
    settings[1] = (struct pair){"clip_grad_norm", "1"};
    input.command = shell, input.command_count = 3;
    cr_assert_eq(spec_build(&input, &spec, NULL), 0);
    cr_expect_eq(spec->warnings_count, 1);
    spec_release(spec);
    input.command = program, input.command_count = 2;
    cr_assert_eq(spec_build(&input, &spec, NULL), 0);
    cr_expect_eq(spec->warnings_count, 0);
    spec_release(spec);
}

Test(spec, what_is_said_to_no_effect_is_a_warning)
{
    struct spec_input input = good();
    struct spec *spec = NULL;
    struct pair settings[] = {{"fsdp.prefetch", "2"}, {"ddp.powersgd_rank", "4"}, {"seed", "7"}};
    struct pair env = {"MUSTER_DDP_HOOK", "powersgd"};
    input.training = settings, input.training_count = 3;
    cr_assert_eq(spec_build(&input, &spec, NULL), 0);
    cr_assert_eq(spec->warnings_count, 2);
    cr_expect(strstr(spec->warnings[0], "ddp.powersgd_rank counts only with ddp.hook=powersgd"));
    cr_expect(strstr(spec->warnings[1], "fsdp.prefetch counts only with strategy=fsdp"));
    struct spec *larger = spec_resize(spec, 1, 2);
    spec_release(spec);
    cr_assert_eq(larger->warnings_count, 2);
    cr_expect(strstr(larger->warnings[1], "fsdp.prefetch"));
    spec_release(larger);

    input.env = &env, input.env_count = 1;
    cr_assert_eq(spec_build(&input, &spec, NULL), 0);
    cr_expect_eq(spec->warnings_count, 1, "the hook is in env");
    spec_release(spec);
}

Test(spec, what_every_worker_would_refuse_is_refused_before_it_is_a_job)
{
    static const struct {
        struct pair said[2];
        const char *field, *words;
    } rows[] = {
        {{{"ddp.hook", "fp16"}, {"strategy", "zero2"}},
         "training.ddp.hook",
         "ddp.hook fp16 contradicts strategy zero2: it needs ddp"},
        {{{"ddp.static_graph", "true"}, {"strategy", "fsdp"}},
         "training.ddp.static_graph",
         "contradicts strategy fsdp"},
        {{{"low_gradients", "true"}, {"strategy", "ddp"}},
         "training.low_gradients",
         "it needs zero1, zero2 or fsdp"},
        {{{"low_gradients", "on"}, {"mixed_precision", "no"}},
         "training.low_gradients",
         "it needs bf16 or fp16"},
        {{{"loss_scale.growth", "4"}, {"mixed_precision", "bf16"}},
         "training.loss_scale.growth",
         "it needs fp16"},
        {{{"offload.parameters", "true"}, {"strategy", "zero1"}},
         "training.offload.parameters",
         "it needs fsdp"},
        {{{"optimizer", "muon"}, {"strategy", "zero1"}}, "training.optimizer", "it needs ddp"},
        {{{"mesh.dp_shard", "2"}, {"strategy", "ddp"}},
         "training.mesh.dp_shard",
         "contradicts strategy ddp"},
        {{{"mesh.dp", "2"}, {"strategy", "ddp"}}, "training.mesh", "but there are 4 ranks"},
        {{{"mesh.dp_shard", "3"}, {"strategy", "fsdp"}},
         "training.mesh",
         "which does not divide 4 ranks"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct spec_input input = good();
        input.nodes_min = input.nodes_max = 4;
        input.training = rows[i].said, input.training_count = 2;
        expect_bad(&input, rows[i].field, "");
        struct spec *spec = NULL;
        struct error err = {0};
        (void)spec_build(&input, &spec, &err);
        cr_expect(strstr(err.text, rows[i].words), "row %zu: %s", i, err.text);
    }
}

/* Who uses libworker says so by what only libworker reads. */
Test(spec, a_world_that_libworker_cannot_connect_is_refused_or_warned_of)
{
    struct spec_input input = good();
    struct spec *spec = NULL;
    input.training_count = 0;
    input.checkpoint_dir = NULL;
    input.elastic = "in_place";
    input.nodes_min = 1, input.nodes_max = 33, input.workers_per_node = 8;
    cr_assert_eq(spec_build(&input, &spec, NULL), 0);
    cr_assert_eq(spec->warnings_count, 1);
    cr_expect(strstr(spec->warnings[0], "connects 256 workers at most"));
    spec_release(spec);
    input.checkpoint_dir = "/k";
    expect_bad(&input, "nodes.max", "collectives of its own");
    input.checkpoint_dir = NULL;
    struct pair setting = {"strategy", "ddp"};
    input.training = &setting, input.training_count = 1;
    expect_bad(&input, "nodes.max", "collectives of its own");
    input.stored = true;
    cr_assert_eq(spec_build(&input, &spec, NULL), 0, "what was taken once goes on");
    spec_release(spec);
    input.stored = false;
    input.nodes_max = 32;
    cr_assert_eq(spec_build(&input, &spec, NULL), 0);
    cr_expect_eq(spec->warnings_count, 0);
    cr_expect_eq(spec->world_max, 256);
    spec_release(spec);
}

Test(spec, off_is_a_fixed_size)
{
    struct spec_input input = good();
    struct spec *spec = NULL;
    input.elastic = "off";
    input.nodes_min = 1, input.nodes_max = 4;
    expect_bad(&input, "elastic", "one number of nodes");
    input.stored = true;
    cr_assert_eq(spec_build(&input, &spec, NULL), 0);
    cr_expect_eq(spec->elastic, ELASTIC_RESTART, "as it always was");
    spec_release(spec);
    input.stored = false;
    input.nodes_min = 4;
    cr_assert_eq(spec_build(&input, &spec, NULL), 0);
    spec_release(spec);
}

Test(spec, what_a_program_may_still_decide_otherwise_is_a_warning)
{
    struct spec_input input = good();
    struct spec *spec = NULL;
    struct pair setting = {"low_gradients", "true"};
    input.training = &setting, input.training_count = 1;
    cr_assert_eq(spec_build(&input, &spec, NULL), 0);
    cr_assert_eq(spec->warnings_count, 1, "two rules, told once");
    cr_expect(strstr(spec->warnings[0], "unless their program sets that itself"));
    spec_release(spec);
    /* Of an elastic job one world that fits is enough. */
    struct pair mesh = {"mesh.dp", "2"};
    input.training = &mesh, input.training_count = 1;
    input.nodes_min = 1, input.nodes_max = 4;
    cr_expect_eq(spec_build(&input, &spec, NULL), 0);
    spec_release(spec);
}

Test(spec, a_job_may_not_pretend_to_be_another_rank)
{
    struct spec_input input = good();
    struct pair env = {.key = "RANK", .value = "0"};
    input.env = &env;
    input.env_count = 1;
    expect_bad(&input, "env.RANK", "leave it out");
    env.key = "A B";
    expect_bad(&input, "env.A B", "letters");
    env.key = "MUSTER_RESUME_FROM";
    expect_bad(&input, "env.MUSTER_RESUME_FROM", "training.resume_from");
}

Test(spec, a_variable_of_musters_that_nothing_reads_is_refused)
{
    struct spec_input input = good();
    struct pair env = {.key = "MUSTER_STRATGY", .value = "zero1"};
    struct pair setting = {"strategy", "fsdp"};
    struct spec *spec = NULL;
    input.env = &env;
    input.env_count = 1;
    expect_bad(&input, "env.MUSTER_STRATGY", "did you mean MUSTER_STRATEGY?");
    env.key = "MUSTER_MY_OWN_THING";
    expect_bad(&input, "env.MUSTER_MY_OWN_THING", "muster env");
    env.key = "MUSTER_STRATEGY";
    env.value = "zero9";
    expect_bad(&input, "env.MUSTER_STRATEGY", "zero");
    env.value = "zero1";
    cr_expect_eq(spec_build(&input, &spec, NULL), 0);
    spec_release(spec);
    input.training = &setting, input.training_count = 1;
    expect_bad(&input, "env.MUSTER_STRATEGY", "once");
    setting.value = "zero1";
    cr_expect_eq(spec_build(&input, &spec, NULL), 0);
    spec_release(spec);
}

static struct job *ended_job(struct cluster *cluster, uint64_t sequence, const char *workdir,
                             const char *dir)
{
    struct spec_input input = good();
    struct job *job = calloc(1, sizeof(*job));
    cr_assert_not_null(job);
    input.checkpoint_dir = dir;
    input.workdir = workdir;
    cr_assert_eq(spec_build(&input, &job->spec, NULL), 0);
    (void)snprintf(job->id, sizeof(job->id), "j%d", (int)sequence);
    job->sequence = sequence;
    job->state = JOB_SUCCEEDED;
    cr_assert_eq(cluster_add_job(cluster, job, NULL), 0);
    return job;
}

static void expect_chain(const struct cluster *cluster, const struct spec *spec, const char *ids)
{
    char found[64] = "";
    for (const struct job *job = cluster_first_in_folder(cluster, spec); job;
         job = cluster_next_in_folder(job))
        (void)snprintf(found + strlen(found), sizeof(found) - strlen(found), "%s ", job->id);
    cr_expect_str_eq(found, ids);
}

Test(cluster, jobs_of_one_folder_are_found_newest_first)
{
    static const char home[] = "/home/me/";
    struct cluster *cluster = cluster_new(1);
    struct job *first = ended_job(cluster, 1, home, "/c/a/");
    struct job *third = ended_job(cluster, 3, home, "/c/a"),
               *second = ended_job(cluster, 2, home, "/c/a//");
    struct job *near = ended_job(cluster, 4, home, "a"),
               *other = ended_job(cluster, 5, home, "/c/b");
    struct spec *spec = spec_hold(first->spec), *relative = spec_hold(near->spec);
    ended_job(cluster, 6, home, NULL);
    struct job *away = ended_job(cluster, 7, "/home/you", "a");
    expect_chain(cluster, spec, "j3 j2 j1 ");
    expect_chain(cluster, relative, "j4 ");
    expect_chain(cluster, away->spec, "j7 ");
    cluster_remove_job(cluster, second);
    expect_chain(cluster, spec, "j3 j1 ");
    cluster_remove_job(cluster, third);
    expect_chain(cluster, spec, "j1 ");
    cluster_remove_job(cluster, first);
    expect_chain(cluster, spec, "");
    expect_chain(cluster, other->spec, "j5 ");
    spec_release(spec);
    spec_release(relative);
    cluster_free(cluster);
}

Test(ranks, survivors_keep_their_rank_where_it_exists)
{
    struct rank_request requests[] = {{.uid = 13, .rank = 2},
                                      {.uid = 14, .rank = 3},
                                      {.uid = 15, .rank = 4},
                                      {.uid = 16, .rank = 5}};
    uint64_t members[4];
    ranks_assign(requests, 4, members);
    uint64_t expected[] = {15, 16, 13, 14};
    cr_expect_arr_eq(members, expected, sizeof(members));
}

Test(ranks, newcomers_fill_holes_from_the_lowest)
{
    struct rank_request requests[] = {
        {.uid = 1, .rank = 1}, {.uid = 7, .rank = -1}, {.uid = 8, .rank = -1}};
    uint64_t members[3];
    ranks_assign(requests, 3, members);
    uint64_t expected[] = {7, 1, 8};
    cr_expect_arr_eq(members, expected, sizeof(members));
}

Test(secret, tokens_differ_by_worker_generation_and_job)
{
    struct job job = {.id = "j1", .secret = {1, 2, 3}};
    char a[WORKER_TOKEN_MAX], b[WORKER_TOKEN_MAX];
    worker_token(&job, 1, 1, a);
    cr_expect_eq(strncmp(a, "mst_worker_", 11), 0);
    cr_expect_eq(strlen(a), 11 + 43);
    worker_token(&job, 1, 1, b);
    cr_expect_str_eq(a, b);
    worker_token(&job, 1, 2, b);
    cr_expect_str_neq(a, b);
    worker_token(&job, 2, 1, b);
    cr_expect_str_neq(a, b);
    job.secret[0] = 9;
    worker_token(&job, 1, 1, b);
    cr_expect_str_neq(a, b);
    uint8_t x[SECRET_BYTES], y[SECRET_BYTES];
    generation_secret(&job, 1, x);
    generation_secret(&job, 2, y);
    cr_expect_arr_neq(x, y, sizeof(x));
}
