/* What a restore makes of jobs whose workers went on after the backup. */
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include "common/base/buf.h"
#include "coordinator/store/document.h"
#include "coordinator/store/meta.h"

static struct job before, after;

static struct worker *add(uint64_t uid, enum worker_state state)
{
    struct worker *worker = &before.workers[before.workers_count++];
    *worker = (struct worker){.uid = uid, .state = state, .generation = 4};
    strcpy(worker->node, "a");
    return worker;
}

static void group(struct group *ret, uint64_t generation, uint64_t first, int world)
{
    ret->generation = generation;
    ret->world = world;
    ret->members = calloc((size_t)world, sizeof(*ret->members));
    for (int i = 0; i < world; i++)
        ret->members[i] = first + (uint64_t)i;
    strcpy(ret->master_node, "a");
}

static void begin(void)
{
    before = (struct job){.id = "j1", .sequence = 1, .next_generation = 6, .next_uid = 9};
    before.workers = calloc(8, sizeof(*before.workers));
}

static void step_over(void)
{
    struct buf text, made;
    struct error err = {0};
    buf_init(&text, DOCUMENT_MAX_BYTES);
    buf_init(&made, DOCUMENT_MAX_BYTES);
    cr_assert_eq(document_write_job(&before, &text, &err), 0, "%s", err.text);
    const char *from = buf_cstr(&text);
    cr_assert_eq(document_step_over_job(from, strlen(from), &made, &err), 0, "%s", err.text);
    const char *to = buf_cstr(&made);
    cr_assert_eq(document_read_job(to, strlen(to), &after, &err), 0, "%s", err.text);
    buf_fini(&text);
    buf_fini(&made);
}

TestSuite(step_over, .init = begin);

Test(step_over, a_gang_that_trains_forms_again_and_stops_are_newer_than_all_it_was_told)
{
    before.state = JOB_RUNNING;
    group(&before.current, 5, 1, 2);
    before.current.published = before.current.joined = true;
    group(&before.forming, 6, 1, 3);
    add(1, WORKER_JOINED);
    add(2, WORKER_JOINED);
    add(3, WORKER_ASSIGNED);
    step_over();
    cr_expect_eq(after.state, JOB_RUNNING);
    cr_expect(after.current.broken);
    cr_expect_eq(after.forming.generation, 0);
    cr_expect_eq(after.next_generation, 6 + RESTORE_SKIPS);
    cr_expect_eq(after.workers[0].generation, 5 + RESTORE_SKIPS);
    cr_expect_not(after.workers[0].should_stop);
    cr_expect(after.workers[2].should_stop, "who was to grow it ends");
    cr_expect_eq(after.workers[2].state, WORKER_STARTING, "its node tells what became of it");
}

Test(step_over, a_gang_that_was_starting_starts_again)
{
    before.state = JOB_STARTING;
    group(&before.forming, 5, 1, 2);
    add(1, WORKER_STARTING);
    add(2, WORKER_ASSIGNED)->held = true;
    step_over();
    cr_expect_eq(after.state, JOB_RESTARTING);
    cr_expect_eq(after.forming.generation, 0);
    cr_expect(after.workers[0].should_stop);
    cr_expect_eq(after.workers[1].state, WORKER_EXITED, "no agent ever heard of it");
}

Test(step_over, an_ended_job_stays_as_it_is)
{
    before.state = JOB_SUCCEEDED;
    group(&before.current, 5, 1, 1);
    before.current.joined = before.current.published = true;
    add(1, WORKER_EXITED);
    step_over();
    cr_expect_eq(after.next_generation, 6);
    cr_expect_not(after.current.broken);
}
