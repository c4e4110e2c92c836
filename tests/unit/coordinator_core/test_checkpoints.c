/* Checkpoints: fenced by generation, superseded, still taken while a gang ends. Stories
 * on virtual time: what happens, and the exact trace it leaves. */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/unit/coordinator_core/story.h"

static struct story s;

static void begin(void)
{
    story_begin(&s);
}

static void finish(void)
{
    story_end(&s);
}

TestSuite(checkpoints, .init = begin, .fini = finish);

static int kept_checkpoints(const char *id)
{
    const struct job *job = story_job(&s, id);
    int kept = 0;
    for (int i = 0; i < job->checkpoints_count; i++)
        kept += !job_checkpoint_spare(job, i);
    return kept;
}

Test(checkpoints, a_stale_checkpoint_is_refused)
{
    story_running_pair(&s, &story_pair);
    story_commit(&s, "j1", 0, 1, 100);
    cr_assert_eq(s.error.code, 0, "%s", s.error.text);
    story_exit(&s, "j1", 1, 3);
    story_commit(&s, "j1", 0, 1, 200);
    cr_expect_eq(s.error.code, E_ABORTED, "the generation is broken");
    story_follow(&s);
    story_commit(&s, "j1", 0, 1, 200);
    cr_expect_eq(s.error.code, E_ABORTED, "the generation is over");
    story_commit(&s, "j1", 0, 2, 200);
    cr_expect_eq(s.error.code, 0);
    story_commit(&s, "j1", 0, 2, 200);
    cr_expect_eq(s.error.code, 0, "told twice");
    story_commit(&s, "j1", 0, 2, 300);
    cr_expect_eq(s.pruned, 1);
    cr_expect_str_eq(s.pruned_first, "/ckpt/step-00000100");
    cr_expect_eq(kept_checkpoints("j1"), 2);
    s.pruned = 0;
    story_commit(&s, "j1", 0, 2, 300);
    cr_expect_eq(s.pruned, 1, "the answer was lost: who asks again is told again");
    story_commit(&s, "j1", 0, 2, 400);
    cr_expect_eq(s.pruned, 1, "only what is new");
    cr_expect_str_eq(s.pruned_first, "/ckpt/step-00000200");
    cr_expect_eq(kept_checkpoints("j1"), 2);
}

/* Its gang counts as running UNAWARE_AFTER_MS after its last process started. */
Test(checkpoints, a_program_that_reports_may_save_as_soon_as_it_runs)
{
    s.unaware = true;
    story_two_nodes(&s);
    story_submit(&s, &story_rigid);
    story_follow(&s);
    const struct job *job = story_job(&s, "j1");
    cr_assert_eq(job->state, JOB_STARTING);
    story_commit(&s, "j1", 0, 1, 3);
    cr_expect_eq(s.error.code, 0, "%s", s.error.text);
    story_commit(&s, "j1", 0, 2, 4);
    cr_expect_eq(s.error.code, E_ABORTED, "no generation of this number");
    story_wait(&s, UNAWARE_AFTER_MS + 1000);
    cr_assert_eq(job->state, JOB_RUNNING);
    cr_assert_eq(job->checkpoints_count, 1);
    cr_expect_eq(job_last_checkpoint(job)->step, 3);
    story_commit(&s, "j1", 0, 1, 5);
    cr_expect_eq(s.error.code, 0, "%s", s.error.text);
}

Test(checkpoints, a_libworker_rank_saves_only_after_it_joined)
{
    s.unaware = true;
    story_two_nodes(&s);
    story_submit(&s, &story_rigid);
    story_follow(&s);
    s.unaware = false; /* it says Hello, and does not join */
    story_node(&s, "a")->workers[0].never_joins = true;
    story_report(&s, "a");
    cr_assert_eq(story_job(&s, "j1")->state, JOB_STARTING);
    story_commit(&s, "j1", 0, 1, 3);
    cr_expect_eq(s.error.code, E_ABORTED);
}

Test(checkpoints, a_checkpoint_of_a_later_generation_supersedes_higher_steps_of_earlier_ones)
{
    story_running_pair(&s, &story_pair);
    story_commit(&s, "j1", 0, 1, 100);
    story_commit(&s, "j1", 0, 1, 200);
    story_exit(&s, "j1", 1, 3);
    story_follow(&s);
    s.pruned = 0;
    story_commit(&s, "j1", 0, 2, 150); /* 200 was damaged: they went on from 100 */
    cr_assert_eq(s.error.code, 0);
    cr_expect_eq(job_last_checkpoint(story_job(&s, "j1"))->step, 150);
    cr_expect_eq(s.pruned, 1);
    cr_expect_str_eq(s.pruned_first, "/ckpt/step-00000200");
    cr_expect_eq(kept_checkpoints("j1"), 2);
    story_commit(&s, "j1", 0, 2, 200); /* the same folder, written anew */
    cr_expect_eq(s.pruned, 1);
    cr_expect_str_eq(s.pruned_first, "/ckpt/step-00000100");
    cr_expect_eq(job_last_checkpoint(story_job(&s, "j1"))->generation, 2);
    cr_expect_eq(kept_checkpoints("j1"), 2);
}

Test(checkpoints, a_gang_that_ends_may_save_though_its_ranks_leave_one_by_one)
{
    story_running_pair(&s, &story_rigid);
    struct story_worker *saves = story_worker(&s, "j1", 0, NULL);
    saves->ignores_term = true;
    story_cancel(&s, "j1");
    story_follow(&s);
    saves->broken = 1;
    saves->lost_ranks[0] = 1;
    saves->lost_count = 1;
    story_report(&s, "a");
    story_commit(&s, "j1", 0, 1, 100);
    cr_expect_eq(s.error.code, 0, "%s", s.error.text);
    cr_expect_eq(kept_checkpoints("j1"), 1);
    saves->ignores_term = false;
    story_wait(&s, 2000);
    story_expect(&s, "j1 stopping cancelled\nj1 cancelled cancelled\n");
}

/* Rank 0 writes while rank 1 has ended already, and a third node waits for them. A later gang
 * takes up what it saved. */
Test(checkpoints, a_gang_of_which_nobody_stays_saves_before_it_moves)
{
    story_running_pair(&s, &(struct story_spec){.name = "r", .nodes_min = 2, .elastic = "off"});
    story_node_up(&s, "c", 1);
    story_progress(&s, "j1", 70);
    struct story_worker *saves = story_worker(&s, "j1", 0, NULL);
    story_worker(&s, "j1", 1, NULL)->ignores_term = saves->ignores_term = true;
    story_node_set(&s, "b", NODE_DRAIN);
    story_follow(&s);
    story_commit(&s, "j1", 0, 1, 70);
    cr_expect_eq(s.error.code, 0, "%s", s.error.text);
    story_worker(&s, "j1", 1, NULL)->ignores_term = false;
    story_wait(&s, 2000);
    cr_expect_eq(story_job(&s, "j1")->state, JOB_RESTARTING, "rank 0 still writes");
    story_commit(&s, "j1", 0, 1, 71);
    cr_expect_eq(s.error.code, 0, "%s", s.error.text);
    saves->ignores_term = false;
    story_wait(&s, 2000);
    const struct job *job = story_job(&s, "j1");
    cr_expect_eq(job->state, JOB_RUNNING);
    cr_expect_eq(job->current.generation, 2);
    cr_expect_eq(job->step, 71, "it begins where it saved");
    story_commit(&s, "j1", 0, 1, 72);
    cr_expect_eq(s.error.code, E_ABORTED, "the generation is over");
}

static void expect_folder_refused(const char *who, const char *hint)
{
    cr_assert_eq(s.error.code, E_FAILED_PRECONDITION, "%s", s.error.text);
    cr_expect_str_eq(s.error.field, "checkpoint.dir");
    cr_expect(strncmp(s.error.text, who, strlen(who)) == 0, "%s", s.error.text);
    cr_expect_str_eq(s.error.hint, hint);
}

Test(checkpoints, two_jobs_never_write_into_one_folder)
{
    struct story_spec spec = {.name = "x", .nodes_min = 1, .checkpoint_dir = "/shared/gpt"};
    story_node_up(&s, "a", 4);
    story_submit_key(&s, &spec, "key");
    cr_assert_eq(s.error.code, 0, "%s", s.error.text);
    story_submit_key(&s, &spec, "key");
    cr_assert(s.error.code == 0 && s.repeated, "the first job answers who asks again");
    spec.checkpoint_dir = "/shared/gpt//";
    story_submit(&s, &spec);
    expect_folder_refused("job j1 keeps",
                          "choose another checkpoint.dir, or wait until j1 has ended");
    spec.tenant = "vision";
    story_submit(&s, &spec);
    expect_folder_refused("another job keeps",
                          "choose another checkpoint.dir, or wait until it has ended");
    spec.checkpoint_dir = "/shared/gpt2";
    story_submit(&s, &spec);
    cr_assert_eq(s.error.code, 0, "%s", s.error.text);
    story_cancel(&s, "j1");
    story_wait(&s, 60000);
    spec.checkpoint_dir = "/shared/gpt";
    story_submit(&s, &spec);
    cr_expect_eq(s.error.code, 0, "a job goes on where one has ended: %s", s.error.text);
}

/* It would begin at step 0 and write over them, one by one. */
Test(checkpoints, what_an_ended_job_left_is_not_written_over)
{
    struct story_spec spec = {.name = "x", .nodes_min = 1, .checkpoint_dir = "/shared/gpt"};
    static const char hint[] =
        "to continue from the newest: training: {resume_from: latest} or --resume-from latest; to "
        "start from the beginning choose another checkpoint.dir";
    story_node_up(&s, "a", 4);
    story_submit(&s, &spec);
    story_follow(&s);
    story_commit(&s, "j1", 0, 1, 100);
    cr_assert_eq(s.error.code, 0, "%s", s.error.text);
    story_cancel(&s, "j1");
    story_wait(&s, 60000);
    story_submit(&s, &spec);
    expect_folder_refused(
        "job j1 (cancelled) left checkpoints in /shared/gpt, the last of step 100", hint);
    spec.tenant = "vision";
    story_submit(&s, &spec);
    expect_folder_refused("another job left checkpoints", hint);
    spec.resume_from = "latest";
    story_submit(&s, &spec);
    cr_assert_eq(s.error.code, 0, "who says where it begins may: %s", s.error.text);
    story_cancel(&s, "j2");
    story_wait(&s, 60000); /* it saved nothing; what j1 left is there all the same */
    spec.resume_from = NULL;
    story_submit(&s, &spec);
    expect_folder_refused("another job left checkpoints", hint);
}
