/* The store does not grow for ever, and forgets nothing that is still needed. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/str.h"
#include "coordinator/model/tenant.h"
#include "coordinator/store/store_memory.h"
#include "tests/unit/coordinator_api/world.h"

TestSuite(retention, .init = world_open, .fini = world_close);

static void submit(const char *name, const char *key, char ret[32])
{
    struct answer answer;
    submit_true(name, world.admin, key, &answer);
    cr_assert(answer.message, "%s", answer.err.text);
    (void)str_copy(ret, 32, ((Muster__Job *)answer.message)->id);
    answer_fini(&answer);
}

static void cancel(const char *id)
{
    struct answer answer;
    Muster__CancelJobRequest message = MUSTER__CANCEL_JOB_REQUEST__INIT;
    message.id = (char *)id;
    client(&world, "CancelJob", &message, &answer);
    answer_fini(&answer);
}

static bool known(const char *id)
{
    struct answer answer;
    Muster__GetJobRequest message = MUSTER__GET_JOB_REQUEST__INIT;
    message.id = (char *)id;
    struct call call = {.service = &muster__coordinator__descriptor,
                        .method = "GetJob",
                        .message = &message.base,
                        .token = world.admin};
    call_now(&world, &call, &answer);
    bool found = answer.message;
    cr_assert(found || answer.err.code == E_NOT_FOUND);
    answer_fini(&answer);
    return found;
}

static void make_output(const char *id, char path[128])
{
    char file[160];
    struct disk *disk = &world.env.disk;
    snprintf(path, 128, "%s/logs/%s", world.dir, id);
    cr_assert_eq(disk->make_dirs(disk->self, path, 0700, NULL), 0);
    snprintf(file, sizeof(file), "%s/0", path);
    cr_assert_eq(disk->append_file(disk->self, file, "x\n", 2, NULL), 0);
}

Test(retention, the_oldest_ended_jobs_go_with_their_output_and_active_ones_stay)
{
    char ids[100][32], active[32], output[128], kept[128];
    world.keep_jobs = 3;
    world_restart(&world);
    submit("active", NULL, active);
    for (int i = 0; i < 100; i++) {
        submit("ended", i == 0 ? "key" : NULL, ids[i]);
        if (i == 0)
            make_output(ids[0], output);
        cancel(ids[i]);
    }
    make_output(ids[99], kept);
    world_run(&world, 70000);
    cr_assert(known(active), "an active job was forgotten");
    cr_assert_not(known(ids[0]));
    cr_assert_not(known(ids[96]));
    for (int i = 97; i < 100; i++)
        cr_assert(known(ids[i]), "%s was forgotten, too early", ids[i]);
    cr_assert_neq(access(output, F_OK), 0, "output outlived its job");
    cr_assert_eq(access(kept, F_OK), 0);
    char again[32];
    submit("ended", "key", again);
    cr_assert_str_neq(again, ids[0], "a key lives as long as its job");
    world_restart(&world);
    cr_assert_not(known(ids[0]));
    cr_assert(known(active) && known(ids[99]));
    cr_assert_eq(cluster_jobs_count(coordinator_cluster(world.coordinator)), 5);
}

Test(retention, what_ended_long_ago_goes_and_numbers_are_not_given_out_again)
{
    char first[32], second[32], third[32];
    world.keep_ms = 3600000;
    world_restart(&world);
    submit("a", NULL, first);
    cancel(first);
    submit("a", NULL, second);
    cancel(second);
    world_run(&world, 61000);
    cr_assert(known(first));
    world.now_ms += 3600000;
    world_run(&world, 61000);
    cr_assert_not(known(first));
    cr_assert(known(second), "the newest tells the next number");
    world_restart(&world);
    submit("b", NULL, third);
    cr_assert_str_eq(third, "j3");
}

Test(retention, a_wall_clock_that_jumps_makes_nothing_old)
{
    char first[32], second[32];
    world.keep_ms = 3600000;
    world_restart(&world);
    submit("a", NULL, first);
    cancel(first);
    submit("a", NULL, second);
    world_run(&world, 61000);
    world.wall_ahead_ms = INT64_C(400) * 86400000;
    world_run(&world, 61000);
    cr_assert(known(first), "running");
    world_restart(&world);
    world_run(&world, 61000);
    cr_assert(known(first), "over a start");
    world.wall_ahead_ms = 0;
    world_run(&world, 61000);
    cr_assert(known(first), "and set right again");
    world.now_ms += 2 * 3600000;
    world_run(&world, 61000);
    cr_assert_not(known(first), "ages are believed again after an hour");
}

Test(retention, output_that_a_crash_left_without_a_job_is_removed_after_a_start)
{
    char orphan[128], owned[128], id[32];
    submit("a", NULL, id);
    make_output("j777", orphan);
    make_output(id, owned);
    world_restart(&world);
    world_run(&world, 1000);
    cr_assert_neq(access(orphan, F_OK), 0);
    cr_assert_eq(access(owned, F_OK), 0);
}

Test(retention, what_cannot_be_forgotten_on_disk_is_not_forgotten)
{
    char first[32], second[32];
    world.keep_jobs = 1;
    world_restart(&world);
    world_run(&world, 100); /* the pass after the start finds nothing */
    submit("a", NULL, first);
    cancel(first);
    submit("b", NULL, second);
    cancel(second);
    store_memory_fail_commits(world.store, 1000000, E_UNAVAILABLE);
    world_run(&world, 65000);
    cr_assert(known(first));
    store_memory_fail_commits(world.store, 0, 0);
    world_run(&world, 130000);
    cr_assert_not(known(first));
    cr_assert(known(second));
}

Test(retention, what_ended_last_is_kept_however_long_it_ran)
{
    char longest[32], ids[3][32];
    world.keep_jobs = 2;
    world_restart(&world);
    submit("longest", NULL, longest);
    for (int i = 0; i < 3; i++) {
        submit("short", NULL, ids[i]);
        world_run(&world, 1000);
        cancel(ids[i]);
    }
    world_run(&world, 1000);
    cancel(longest);
    world_run(&world, 70000);
    cr_assert(known(longest), "it has the lowest number and ended last");
    cr_assert(known(ids[2]));
    cr_assert(!known(ids[0]) && !known(ids[1]));
}

static double use_of(const char *tenant)
{
    return tenant_use(cluster_tenant(coordinator_cluster(world.coordinator), tenant), world.now_ms);
}

Test(retention, what_forgotten_jobs_used_stays_charged_over_restarts)
{
    enum { RAN = 2 };
    char ids[RAN + 1][32];
    world.keep_jobs = 1;
    world_restart(&world);
    for (int i = 0; i < RAN; i++) { /* each is cut short with its node's next life */
        register_node_of(2 * (uint64_t)i + 1, 1);
        submit("a", NULL, ids[i]);
        world_run(&world, 4000);
        cancel(ids[i]);
        register_node_of(2 * (uint64_t)i + 2, 1);
        world_run(&world, 70000);
    }
    submit("b", NULL, ids[RAN]);
    cancel(ids[RAN]);
    world_run(&world, 70000);
    cr_assert(!known(ids[0]) && !known(ids[1]));
    double use = use_of("default");
    cr_assert_gt(use, 4e-5, "%g", use);
    for (int life = 0; life < 2; life++) {
        world_restart(&world);
        world_run(&world, 1000);
        cr_expect_float_eq(use_of("default"), use, 1e-8, "%.9f is %.9f", use, use_of("default"));
    }
}
