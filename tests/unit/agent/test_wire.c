/* Assignments from the wire, reports to it, and the outbox between launcher and coordinator. */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include "agent/core/environment.h"
#include "agent/link/held.h"
#include "agent/link/wire.h"
#include "common/rpc/message.h"
#include "common/rpc/transcode.h"
#include "agent/outbox.h"

Test(wire, an_assignment_in_our_words)
{
    Muster__JobSpec__EnvEntry b = MUSTER__JOB_SPEC__ENV_ENTRY__INIT;
    Muster__JobSpec__EnvEntry a = MUSTER__JOB_SPEC__ENV_ENTRY__INIT;
    Muster__JobSpec__EnvEntry *env[] = {&b, &a};
    Muster__JobSpec__Resources resources = MUSTER__JOB_SPEC__RESOURCES__INIT;
    Muster__JobSpec__Restart restart = MUSTER__JOB_SPEC__RESTART__INIT;
    Muster__JobSpec spec = MUSTER__JOB_SPEC__INIT;
    Muster__Assignment message = MUSTER__ASSIGNMENT__INIT;
    Muster__JobShared shared = MUSTER__JOB_SHARED__INIT;
    char *command[] = {(char *)"python3", (char *)"t.py"};
    a.key = (char *)"A", a.value = (char *)"1", b.key = (char *)"B", b.value = (char *)"2";
    resources.slots = 2, resources.cpus = 1.5, resources.memory = (char *)"2GiB";
    restart.max = 7;
    static const char training[] =
        "{\"strategy\":\"fsdp\",\"mesh\":{\"tp\":4},\"clip_grad_norm\":1,"
        "\"seed\":\"1099511627776\",\"settings\":{\"ddp.hook\":\"fp16\"}}";
    ProtobufCMessage *settings;
    cr_assert_eq(transcode_from_json(training, strlen(training), &muster__training__descriptor,
                                     &settings, NULL),
                 0);
    spec.command = command, spec.n_command = 2, spec.env = env, spec.n_env = 2;
    spec.resources = &resources, spec.restart = &restart,
    spec.training = (Muster__Training *)settings;
    message.job = (char *)"j1", message.uid = 9, message.generation = 2;
    shared.spec = &spec;
    message.master_port = 21000;
    struct assignment *got;
    struct error err;
    cr_assert_eq(wire_assignment(&message, &shared, &got, &err), 0, "%s", err.text);
    cr_expect_str_eq(got->command[1], "t.py");
    cr_expect_null(got->command[2]);
    cr_expect_str_eq(got->env[0].name, "A");
    cr_expect_eq(got->memory_bytes, 2ull << 30);
    cr_expect_eq(got->slots, 2);
    cr_expect_eq(got->restarts_max, 7);
    cr_expect_eq(got->master_port, 21000);
    cr_expect_str_eq(assignment_training(got, "strategy"), "fsdp");
    cr_expect_str_eq(assignment_training(got, "mesh.tp"), "4");
    cr_expect_str_eq(assignment_training(got, "seed"), "1099511627776");
    cr_expect_not_null(assignment_training(got, "clip_grad_norm"));
    cr_expect_null(assignment_training(got, "mesh.dp"), "what is not set is not said");
    cr_expect_null(assignment_training(got, "mixed_precision"));
    cr_expect_str_eq(assignment_training(got, "ddp.hook"), "fp16");
    cr_expect_eq(got->training_count, 5);
    assignment_release(got);
    rpc_message_free(settings);
}

Test(wire, malformed_assignments_are_refused)
{
    Muster__Assignment message = MUSTER__ASSIGNMENT__INIT;
    Muster__JobSpec spec = MUSTER__JOB_SPEC__INIT;
    Muster__JobShared shared = MUSTER__JOB_SHARED__INIT;
    struct assignment *got = NULL;
    struct error err;
    cr_expect_eq(wire_assignment(&message, &shared, &got, &err), E_INVALID_ARGUMENT);
    message.job = (char *)"a-job-id-that-is-longer-than-any-job-id-may-be";
    cr_expect_eq(wire_assignment(&message, &shared, &got, &err), E_INVALID_ARGUMENT);
    message.job = (char *)"j";
    cr_expect_eq(wire_assignment(&message, &shared, &got, &err), E_INVALID_ARGUMENT);
    shared.spec = &spec;
    message.master_port = 70000;
    cr_expect_eq(wire_assignment(&message, &shared, &got, &err), E_INVALID_ARGUMENT);
    cr_expect_null(got);
}

Test(wire, a_membership_of_another_generation_is_none)
{
    Muster__Member member = MUSTER__MEMBER__INIT, *members[] = {&member};
    Muster__Membership membership = MUSTER__MEMBERSHIP__INIT;
    Muster__Assignment message = MUSTER__ASSIGNMENT__INIT;
    Muster__JobSpec spec = MUSTER__JOB_SPEC__INIT;
    Muster__JobShared shared = MUSTER__JOB_SHARED__INIT;
    struct arena arena = {0};
    struct assignment *got;
    member.endpoint = (char *)"tcp://e", member.node = (char *)"n";
    membership.members = members, membership.n_members = 1, membership.generation = 1;
    message.job = (char *)"j", message.generation = 2;
    shared.membership = &membership, shared.spec = &spec;
    cr_assert_eq(wire_assignment(&message, &shared, &got, NULL), 0);
    cr_expect_eq(got->members_count, 0);
    cr_expect_null(wire_membership(got, &arena));
    assignment_release(got);
    membership.generation = 2;
    cr_assert_eq(wire_assignment(&message, &shared, &got, NULL), 0);
    cr_expect_str_eq(wire_membership(got, &arena)->members[0]->endpoint, "tcp://e");
    assignment_release(got);
    arena_fini(&arena);
}

/* One answer of the coordinator: spec and membership of generation (0 = not told) of job j. */
static void tell(struct held *held, const char *job, Muster__JobSpec *spec, uint64_t generation)
{
    Muster__Membership membership = MUSTER__MEMBERSHIP__INIT;
    Muster__JobShared shared = MUSTER__JOB_SHARED__INIT, *all[] = {&shared};
    Muster__NodePollAnswer answer = MUSTER__NODE_POLL_ANSWER__INIT;
    membership.generation = generation;
    shared.job = (char *)(uintptr_t)job;
    shared.spec = spec;
    shared.membership = generation ? &membership : NULL;
    answer.shared = all, answer.n_shared = 1;
    cr_assert_eq(held_merge(held, &answer, NULL), 0);
    held_keep_only(held, &answer);
}

Test(wire, what_jobs_share_is_held_until_they_are_gone)
{
    struct held held = {0};
    struct arena arena = {0};
    Muster__JobSpec spec = MUSTER__JOB_SPEC__INIT;
    Muster__NodePollRequest request = MUSTER__NODE_POLL_REQUEST__INIT;
    spec.name = (char *)"first";
    tell(&held, "j", &spec, 0);
    tell(&held, "j", NULL, 3);
    tell(&held, "j", NULL, 0);
    const Muster__JobShared *got = held_find(&held, "j");
    cr_assert(got && got->spec && got->membership);
    cr_expect_str_eq(got->spec->name, "first");
    cr_expect_eq(got->membership->generation, 3);
    cr_assert_eq(held_fill(&held, &arena, &request), 0);
    cr_assert_eq(request.n_held, 1);
    cr_expect_str_eq(request.held[0]->job, "j");
    cr_expect_eq(request.held[0]->generation, 3);
    tell(&held, "k", &spec, 0);
    cr_expect_null(held_find(&held, "j"), "no longer named");
    cr_expect_not_null(held_find(&held, "k"));
    held_fini(&held);
    arena_fini(&arena);
}

/* A launcher that only has output: `lines[uid]` lines "uid:number". */
struct tape {
    int lines[4], acked[4];
    bool ended[4];
};

static int read_output(void *self, const struct worker_key *key, size_t max_bytes,
                       struct output_batch *ret, struct error *err)
{
    struct tape *tape = self;
    int at = tape->acked[key->uid], left = tape->lines[key->uid] - at;
    (void)err;
    if (left > (int)max_bytes / 4)
        left = (int)max_bytes / 4;
    *ret = (struct output_batch){.first = (uint64_t)at, .count = left};
    ret->lines = calloc((size_t)left + 1, sizeof(*ret->lines));
    for (int i = 0; i < left; i++)
        ret->lines[i] = (struct output_line){.wall_ms = at + i, .text = "line"};
    ret->complete = tape->ended[key->uid] && at + left == tape->lines[key->uid];
    return 0;
}

void output_batch_fini(struct output_batch *batch)
{
    free(batch->lines);
    batch->lines = NULL;
}

static void acknowledge(void *self, const struct worker_key *key, uint64_t next)
{
    ((struct tape *)self)->acked[key->uid] = (int)next;
}

static int shipped_count;
static void on_shipped(void *arg, const struct worker_key *key)
{
    (void)arg;
    (void)key;
    shipped_count++;
}

struct post { /* an outbox over a tape */
    struct tape tape;
    struct launcher launcher;
    struct outbox outbox;
    struct arena arena;
    Muster__NodeReport report;
};

static void post_init(struct post *p)
{
    memset(p, 0, sizeof(*p));
    p->launcher =
        (struct launcher){.self = &p->tape, .read_output = read_output, .acknowledge = acknowledge};
    cr_assert_eq(outbox_init(&p->outbox, &p->launcher, NULL), 0);
    shipped_count = 0;
}

static bool post_fill(struct post *p)
{
    arena_fini(&p->arena);
    muster__node_report__init(&p->report);
    outbox_fill(&p->outbox, &p->arena, &p->report);
    return outbox_packed(&p->outbox, true);
}

static const struct worker_key one = {"j", 1}, two = {"j", 2};

Test(outbox, what_was_not_acknowledged_goes_again)
{
    struct post p;
    post_init(&p);
    p.tape.lines[1] = 3;
    outbox_output(&p.outbox, &one);
    outbox_metric(&p.outbox, &(struct metric){.job = "j", .name = "loss", .value = 2});
    cr_assert(outbox_ready(&p.outbox));
    cr_assert(post_fill(&p));
    cr_expect_eq(p.report.n_metrics, 1);
    cr_expect_eq(p.report.logs[0]->n_lines, 3);
    cr_expect_not(outbox_ready(&p.outbox), "one report at a time");
    cr_expect_not(post_fill(&p));
    cr_expect_eq(p.report.n_logs, 0);
    outbox_done(&p.outbox, false, on_shipped, NULL);
    cr_assert(post_fill(&p));
    cr_expect_eq(p.report.n_metrics, 1);
    cr_expect_eq(p.report.logs[0]->offset, 0);
    outbox_done(&p.outbox, true, on_shipped, NULL);
    cr_expect_eq(p.tape.acked[1], 3);
    cr_expect_not(outbox_ready(&p.outbox));
    cr_expect_eq(shipped_count, 0, "it still runs");
    outbox_fini(&p.outbox);
    arena_fini(&p.arena);
}

Test(outbox, a_line_is_of_the_rank_that_its_worker_had_then)
{
    struct post p;
    post_init(&p);
    p.tape.lines[1] = 8; /* at 0, 1, ... ms */
    outbox_joined(&p.outbox, &one, &(struct outbox_place){5, 2, 3});
    outbox_output(&p.outbox, &one);
    outbox_joined(&p.outbox, &one, &(struct outbox_place){6, 0, 6});
    outbox_joined(&p.outbox, &one, &(struct outbox_place){6, 0, 7}); /* repeated */
    cr_assert(post_fill(&p));
    cr_assert_eq(p.report.logs[0]->n_lines, 8);
    for (size_t i = 0; i < 8; i++) {
        const Muster__LogLine *line = p.report.logs[0]->lines[i];
        cr_expect_eq(line->rank, i < 6 ? 2 : 0, "line %zu: %u", i, line->rank);
        cr_expect_eq(line->generation, i < 6 ? 5 : 6, "line %zu", i);
    }
    outbox_done(&p.outbox, true, on_shipped, NULL);
    outbox_output(&p.outbox, &two); /* it joins nothing: as it was started */
    p.tape.lines[2] = 1;
    cr_assert(post_fill(&p));
    cr_expect_eq(p.report.logs[0]->lines[0]->generation, 0);
    outbox_done(&p.outbox, true, on_shipped, NULL);
    outbox_fini(&p.outbox);
    arena_fini(&p.arena);
}

Test(outbox, an_ended_worker_is_shipped_once_all_is_acknowledged)
{
    struct post p;
    post_init(&p);
    p.tape.ended[1] = p.tape.ended[2] = true;
    p.tape.lines[1] = 100000; /* more than one report takes */
    outbox_ended(&p.outbox, &one);
    outbox_ended(&p.outbox, &two); /* without a word */
    int reports = 0, lasts[3] = {0};
    for (; outbox_ready(&p.outbox) && reports < 100; reports++) {
        cr_assert(post_fill(&p));
        for (size_t i = 0; i < p.report.n_logs; i++)
            lasts[p.report.logs[i]->uid] += p.report.logs[i]->last;
        outbox_done(&p.outbox, true, on_shipped, NULL);
    }
    cr_expect_eq(shipped_count, 2);
    cr_expect(lasts[1] == 1 && lasts[2] == 1, "each says once that nothing follows");
    cr_expect_eq(p.tape.acked[1], 100000);
    cr_expect(reports >= 2 && reports < 10, "%d", reports);
    outbox_fini(&p.outbox);
    arena_fini(&p.arena);
}

Test(outbox, a_loud_worker_does_not_hide_the_others)
{
    struct post p;
    post_init(&p);
    p.tape.lines[1] = 1000000;
    p.tape.lines[2] = 1;
    outbox_output(&p.outbox, &one);
    outbox_output(&p.outbox, &two);
    for (int i = 0; i < 2; i++) {
        cr_assert(post_fill(&p));
        outbox_done(&p.outbox, true, on_shipped, NULL);
    }
    cr_expect_eq(p.tape.acked[2], 1);
    outbox_fini(&p.outbox);
    arena_fini(&p.arena);
}

/* Stacks of a worker each; the texts are as long as they may be. */
static void add_stacks(struct post *p, uint64_t uid)
{
    static char text[64 << 10];
    memset(text, 'x', sizeof(text));
    struct outbox_text about = {.key = {"j", uid}, .rank = (uint32_t)uid, .wall_ms = 1};
    outbox_texts_add(&p->outbox.texts, &about, text, sizeof(text));
}

Test(outbox, stacks_of_all_workers_of_a_node_arrive_in_turns)
{
    enum { WORKERS = 200 };
    struct post p;
    uint64_t arrived = 0;
    post_init(&p);
    for (uint64_t uid = 1; uid <= WORKERS; uid++)
        add_stacks(&p, uid);
    for (int reports = 0; outbox_ready(&p.outbox) && reports < 100; reports++) {
        cr_assert(post_fill(&p));
        cr_expect(p.report.n_logs >= 1 && p.report.n_logs <= 16, "%zu of 64 KiB in one report",
                  p.report.n_logs);
        bool lost = reports == 1; /* it goes again */
        for (size_t i = 0; i < p.report.n_logs; i++)
            cr_expect_eq(p.report.logs[i]->rank, arrived + i + 1, "in order");
        outbox_done(&p.outbox, !lost, on_shipped, NULL);
        arrived += lost ? 0 : p.report.n_logs;
    }
    cr_expect_eq(arrived, WORKERS);
    cr_expect_eq(p.outbox.texts.bytes, 0);
    outbox_fini(&p.outbox);
    arena_fini(&p.arena);
}

Test(outbox, short_stacks_go_in_turns_too_and_all_are_bounded)
{
    struct post p;
    post_init(&p);
    for (uint64_t uid = 1; uid <= OUTBOX_TEXTS_REPORT_MAX + 1; uid++) {
        struct outbox_text about = {.key = {"j", uid}};
        outbox_texts_add(&p.outbox.texts, &about, "x\n", 2);
    }
    cr_assert(post_fill(&p));
    cr_expect_eq(p.report.n_logs, OUTBOX_TEXTS_REPORT_MAX);
    outbox_done(&p.outbox, true, on_shipped, NULL);
    cr_assert(post_fill(&p));
    cr_expect_eq(p.report.n_logs, 1);
    for (uint64_t uid = 1; uid < 1000; uid++)
        add_stacks(&p, uid);
    cr_expect_leq(p.outbox.texts.bytes, OUTBOX_TEXTS_BYTES);
    cr_expect_gt(p.outbox.texts.bytes, OUTBOX_TEXTS_BYTES / 2);
    outbox_fini(&p.outbox);
    arena_fini(&p.arena);
}

Test(outbox, metrics_are_bounded_and_the_oldest_go_first)
{
    struct post p;
    post_init(&p);
    for (int i = 0; i < OUTBOX_METRICS_MAX + 10; i++)
        outbox_metric(&p.outbox, &(struct metric){.job = "j", .name = "loss", .value = i});
    cr_expect_eq(p.outbox.metrics_dropped, 10);
    cr_assert(post_fill(&p));
    cr_expect_eq(p.report.n_metrics, OUTBOX_METRICS_PER_REPORT);
    cr_expect_eq(p.report.metrics[0]->value, 10);
    outbox_fini(&p.outbox);
    arena_fini(&p.arena);
}
