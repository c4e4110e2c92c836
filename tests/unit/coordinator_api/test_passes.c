/* How often the coordinator looks through its queue. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "coordinator/model/cluster_pass.h"
#include "tests/unit/coordinator_api/world.h"

enum { BURST = 40 };

TestSuite(passes, .init = world_open, .fini = world_close);

static uint64_t passes(void)
{
    return cluster_passes(coordinator_cluster(world.coordinator));
}

static struct call submission(Muster__SubmitJobRequest *message, Muster__JobSpec *spec)
{
    muster__submit_job_request__init(message);
    message->spec = spec;
    return (struct call){.service = &muster__coordinator__descriptor,
                         .method = "SubmitJob",
                         .message = &message->base,
                         .token = world.admin};
}

Test(passes, one_is_made_for_all_that_arrives_in_a_turn)
{
    Muster__JobSpec spec = spec_of("many");
    Muster__SubmitJobRequest message;
    struct call call = submission(&message, &spec);
    struct answer answers[BURST];
    register_node_of(7, 1);
    uint64_t before = passes();
    for (int i = 0; i < BURST; i++)
        call_start(&world, &call, &answers[i]);
    world_run(&world, 1);
    cr_assert_eq(passes(), before + 1, "%d were made", (int)(passes() - before));
    for (int i = 0; i < BURST; i++) {
        const Muster__Job *job = (void *)answers[i].message;
        cr_assert(job, "%d was not answered in its turn", i);
        cr_assert_str_neq(job->reason->kind, "submitted", "%s has no reason", job->id);
        answer_fini(&answers[i]);
    }
}

static void submit_one(void)
{
    struct answer answer;
    submit_true("one", world.admin, NULL, &answer);
    cr_assert(answer.message);
    answer_fini(&answer);
}

Test(passes, others_have_the_loop_as_long_as_the_last_one_took)
{
    enum { TOOK_MS = 30 };
    register_node_of(7, 1);
    world_run(&world, 10);
    world.lag_ms = TOOK_MS;
    world.lags = 7; /* the loop's five, and those before and after the pass */
    submit_one();
    uint64_t before = passes();
    submit_one();
    cr_assert_eq(passes(), before, "it came too soon");
    world_run(&world, TOOK_MS);
    cr_assert_eq(passes(), before + 1);
    world_run(&world, 10 * TOOK_MS);
    cr_assert_eq(passes(), before + 1, "nothing was left to look at");
    submit_one();
    cr_assert_eq(passes(), before + 2, "a quiet queue is looked at at once");
}
