/* Specifications, ranks, secrets: what is arithmetic. */
#include <string.h>

#include <criterion/criterion.h>

#include "coordinator/model/cluster.h"
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
}

Test(spec, what_is_wrong_is_named_with_a_hint)
{
    struct spec_input input = good();
    input.name = "GPT";
    expect_bad(&input, "name", "lower-case");
    input = good();
    input.command_count = 0;
    expect_bad(&input, "command", "program");
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
    expect_bad(&input, "elastic", "did you mean 'in_place'");
    input = good();
    input.checkpoint_every = "200 steps";
    expect_bad(&input, "checkpoint.dir", "folder");
    input = good();
    input.checkpoint_dir = "/c";
    input.checkpoint_every = "often";
    expect_bad(&input, "checkpoint.every", "200 steps");
    input = good();
    input.strategy = "zero3";
    expect_bad(&input, "training.strategy", "zero");
    input = good();
    input.mesh.tp = 2;
    expect_bad(&input, "training.mesh", "multiple");
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
    cr_expect_arr_eq(members, expected, sizeof members);
}

Test(ranks, newcomers_fill_holes_from_the_lowest)
{
    struct rank_request requests[] = {
        {.uid = 1, .rank = 1}, {.uid = 7, .rank = -1}, {.uid = 8, .rank = -1}};
    uint64_t members[3];
    ranks_assign(requests, 3, members);
    uint64_t expected[] = {7, 1, 8};
    cr_expect_arr_eq(members, expected, sizeof members);
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
    cr_expect_arr_neq(x, y, sizeof x);
}
