/* Work that repeats becomes graphs (device/replay.h), over the module's streams and the launches'
 * own functions:
 *
 *     cuda_repeat [CASE]
 *
 * Results are those of the host, in any order of the streams. cuda_repeat_… are this program with a
 * mistake in what it tests. */
#include <string.h>

#include <worker/error.h>

#include "libworker/device/device_ops.h"
#include "libworker/cuda/cuda.h"
#include "tests/conformance/device/programs.h"
#include "tests/cuda/fake/gpu.h"

enum { SEEDS = 12, COUNT = 64, LAUNCHES = 6, ROUNDS = 5 };
#define BYTES (COUNT * sizeof(float))

/* y = y * factors[0] + 1, and so on: what y[0] is on the host is `wanted`. */
struct program {
    struct device *device;
    struct queue *queue;
    float *y, *x, *pinned;
    double wanted;
};

static struct program program_on(const struct fake_options *options)
{
    struct program p = {.device = gpu_hosted(options)};
    device_choose_graphs(p.device, DEVICE_GRAPHS_ON);
    p.queue = a_queue(p.device);
    p.y = device_buffer(p.device, BYTES);
    p.x = device_buffer(p.device, BYTES);
    p.pinned = pinned_buffer(p.device, BYTES);
    queue_fill(p.queue, p.y, 0, BYTES);
    queue_fill(p.queue, p.x, 0, BYTES);
    return p;
}

static struct program program_new(uint64_t seed)
{
    const struct fake_options options = gpu_options(seed);
    return program_on(&options);
}

static void program_free(struct program *p)
{
    device_memory_free(p->device, p->y, BYTES);
    device_memory_free(p->device, p->x, BYTES);
    device_pinned_free(p->device, p->pinned, BYTES);
    queue_free(p->queue);
    device_free(p->device);
}

/* Arguments are compared with what is between their members. */
static void apply(struct queue *queue, float *y, float factor, float more)
{
    struct affine a;
    memset(&a, 0, sizeof(a));
    a.out = y;
    a.in = y;
    a.count = COUNT;
    a.factor = factor;
    a.more = more;
    affine(queue, "apply", a);
}

static void step(struct program *p, float factor)
{
    apply(p->queue, p->y, factor, 1);
    p->wanted = (double)((float)p->wanted * factor + 1);
}

static void steps(struct program *p, int n, float factor)
{
    for (int i = 0; i < n; i++)
        step(p, i == n / 2 ? factor : 0.5f);
}

static void section(struct program *p, const void *owner, int n, float factor)
{
    replay_begin(p->queue, owner);
    steps(p, n, factor);
    replay_end(p->queue);
}

static bool is_right(struct program *p)
{
    float got[COUNT];
    CHECK(queue_read(p->queue, got, p->y, BYTES, NULL) == 0);
    for (int i = 0; i < COUNT; i++) {
        if (got[i] != (float)p->wanted)
            return false;
    }
    return true;
}

static struct replay_counts counts_of(const struct program *p)
{
    struct replay_counts counts;
    replay_counted(p->queue, &counts);
    return counts;
}

static void a_sequence_becomes_a_graph(void)
{
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct program p = program_new(seed);
        for (int round = 0; round < ROUNDS; round++) {
            long before = fake_counted().calls;
            section(&p, &p, LAUNCHES, 0.25f);
            CHECK(fake_counted().calls - before == (round ? 1 : LAUNCHES));
        }
        CHECK(is_right(&p));
        struct replay_counts counts = counts_of(&p);
        CHECK(counts.recorded == 1 && counts.captured == 1 && !counts.refused);
        CHECK(counts.replayed == ROUNDS - 1 && counts.works == (ROUNDS - 1) * LAUNCHES);
        program_free(&p);
    }
}

static void without_a_choice_nothing_is_recorded(void)
{
    struct program p = program_new(1);
    device_choose_graphs(p.device, DEVICE_GRAPHS_OFF);
    for (int round = 0; round < ROUNDS; round++)
        section(&p, &p, LAUNCHES, 0.25f);
    CHECK(is_right(&p) && counts_of(&p).recorded == 0 && counts_of(&p).replayed == 0);
    program_free(&p);
}

static void an_argument_that_changes_counts(void)
{
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct program p = program_new(seed);
        for (int round = 0; round < ROUNDS; round++)
            section(&p, &p, LAUNCHES, 0.25f + (float)round);
        CHECK(is_right(&p));
        CHECK(counts_of(&p).recorded == ROUNDS && counts_of(&p).replayed == 0);
        section(&p, &p, LAUNCHES, 0.25f);
        CHECK(is_right(&p) && counts_of(&p).replayed == 1);
        program_free(&p);
    }
}

/* As where a batch has two slots, and where some passes are longer. */
static void several_sequences_take_turns(void)
{
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct program p = program_new(seed);
        for (int round = 0; round < 3 * ROUNDS; round++)
            section(&p, &p, LAUNCHES + round % 3, 0.25f);
        CHECK(is_right(&p) && counts_of(&p).replayed == 3 * (ROUNDS - 1));
        for (int n = REPLAY_WORKS_LEAST; n < LAUNCHES; n++)
            section(&p, &p, n, 0.5f);
        CHECK(is_right(&p));
        program_free(&p);
    }
}

static void copies_and_fills_repeat(void)
{
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct program p = program_new(seed);
        for (int round = 0; round < ROUNDS; round++) {
            for (int i = 0; i < COUNT; i++)
                p.pinned[i] = (float)round;
            replay_begin(p.queue, &p);
            queue_fill(p.queue, p.x, 0xff, BYTES);
            queue_send(p.queue, p.x, p.pinned, BYTES);
            queue_copy(p.queue, p.y, p.x, BYTES);
            p.wanted = round;
            steps(&p, LAUNCHES, 0.25f);
            queue_fetch(p.queue, p.pinned, p.y, BYTES);
            replay_end(p.queue);
            CHECK(queue_finish(p.queue, NULL) == 0);
            for (int i = 0; i < COUNT; i++)
                CHECK(p.pinned[i] == (float)p.wanted);
        }
        CHECK(counts_of(&p).replayed == ROUNDS - 1);
        program_free(&p);
    }
}

static void a_copy_from_elsewhere_is_another(void)
{
    struct program p = program_new(2);
    float *other = device_buffer(p.device, BYTES);
    queue_fill(p.queue, other, 0, BYTES);
    apply(p.queue, other, 0, 7);
    for (int round = 0; round < ROUNDS; round++) {
        replay_begin(p.queue, &p);
        steps(&p, LAUNCHES, 0.5f);
        queue_copy(p.queue, p.y, round == ROUNDS - 1 ? other : p.x, BYTES);
        replay_end(p.queue);
        p.wanted = round == ROUNDS - 1 ? 7 : 0;
    }
    CHECK(is_right(&p));
    CHECK(queue_finish(p.queue, NULL) == 0);
    device_memory_free(p.device, other, BYTES);
    program_free(&p);
}

/* Another queue reads in the middle of a section and writes what its rest reads. */
static void events_end_a_sequence(void)
{
    for (uint64_t seed = 0; seed < 4 * SEEDS; seed++) {
        struct program p = program_new(seed);
        struct queue *other = a_queue(p.device);
        for (int round = 0; round < ROUNDS; round++) {
            replay_begin(p.queue, &p);
            steps(&p, LAUNCHES, 0.25f);
            queue_wait(other, event_record(p.queue));
            apply(other, p.y, 2, 0);
            p.wanted *= 2;
            struct event doubled = event_record(other);
            apply(p.queue, p.x, 1, 1);
            queue_wait(p.queue, doubled);
            steps(&p, LAUNCHES, 0.25f);
            replay_end(p.queue);
        }
        CHECK(is_right(&p) && counts_of(&p).replayed > ROUNDS);
        queue_free(other);
        program_free(&p);
    }
}

static void short_sequences_are_none_and_long_ones_are_cut(void)
{
    struct program p = program_new(3);
    for (int round = 0; round < ROUNDS; round++)
        section(&p, &p, REPLAY_WORKS_LEAST - 1, 0.25f);
    CHECK(is_right(&p) && counts_of(&p).recorded == 0);
    for (int round = 0; round < ROUNDS; round++)
        section(&p, &p, 2 * REPLAY_WORKS_MAX + REPLAY_WORKS_LEAST, 0.25f);
    CHECK(is_right(&p) && counts_of(&p).recorded == 3 && counts_of(&p).captured == 3);
    program_free(&p);
}

static void owners_drop_their_own(void)
{
    struct program p = program_new(0);
    int a, b;
    for (int round = 0; round < 2; round++) {
        section(&p, &a, LAUNCHES, 0.25f);
        section(&p, &b, LAUNCHES, 0.25f);
    }
    CHECK(counts_of(&p).captured == 2);
    replay_drop(p.queue, &a); /* its graph's work may not have run */
    section(&p, &a, LAUNCHES, 0.25f);
    CHECK(counts_of(&p).recorded == 3);
    section(&p, &b, LAUNCHES, 0.25f);
    CHECK(is_right(&p) && counts_of(&p).replayed == 3);
    replay_drop(p.queue, NULL);
    section(&p, &b, LAUNCHES, 0.25f);
    CHECK(is_right(&p) && counts_of(&p).recorded == 4);
    program_free(&p);
}

/* A launch whose function reads host memory as it is enqueued, as those of operations read their
 * attributes. */
struct by_number {
    float *y;
    const float *factor; /* host memory */
};

static const struct device_ops *below;

static void launch_by_number(struct queue *queue, const struct device_launch *launch)
{
    const struct by_number *b = launch->args;
    struct affine a = {b->y, b->y, COUNT, *b->factor, 1, false};
    struct device_launch now = *launch;
    now.run = run_affine;
    now.args = &a;
    now.args_bytes = sizeof(a);
    below->launch(queue, &now);
}

static void of_a_number(struct program *p, const float *factor)
{
    struct by_number args = {p->y, factor};
    replay_begin(p->queue, p);
    for (int i = 0; i < LAUNCHES; i++) {
        queue_launch(p->queue, &(struct device_launch){
                                   .name = "n", .args = &args, .args_bytes = sizeof(args)});
        p->wanted = (double)((float)p->wanted * *factor + 1);
    }
    replay_end(p->queue);
}

static void what_was_captured_is_of_no_use_after_a_change(void)
{
    struct program p = program_new(2);
    struct device_ops by_number = *p.device->ops;
    float factor = 0.5f;
    below = p.device->ops;
    by_number.launch = launch_by_number;
    p.device->ops = &by_number;
    for (int round = 0; round < ROUNDS; round++)
        of_a_number(&p, &factor);
    CHECK(is_right(&p) && counts_of(&p).replayed == ROUNDS - 1);
    replay_drop(p.queue, &p);
    factor = 0.25f;
    for (int round = 0; round < ROUNDS; round++)
        of_a_number(&p, &factor);
    CHECK(is_right(&p) && counts_of(&p).captured == 2);
    p.device->ops = below;
    program_free(&p);
}

/* Its memory for the graph is refused, and the results are those without. */
static void what_cannot_be_captured_is_enqueued(void)
{
    const struct fake_options options = gpu_options(1);
    struct program p = {.device = gpu_hosted(&options)};
    device_free(p.device);
    for (long at = 1; at < 16; at++) {
        struct fake_options scarce = gpu_options(1);
        scarce.scarce_at = 5 + at; /* scratch, stream and buffers come first */
        p = program_on(&scarce);
        for (int round = 0; round < ROUNDS; round++)
            section(&p, &p, LAUNCHES, 0.25f);
        CHECK(is_right(&p));
        struct replay_counts counts = counts_of(&p);
        if (at == 1)
            CHECK(counts.refused && counts.refused->code == WK_ENOMEM && counts.replayed == 0 &&
                  strstr(counts.refused->text, "make a graph: out of memory"));
        else
            CHECK(!counts.refused && counts.replayed == ROUNDS - 1);
        program_free(&p);
    }
}

static void a_launch_that_waits(struct queue *queue, const struct device_launch *launch)
{
    (void)cuda_check(cuda_queue_of(queue), cudaStreamSynchronize(cuda_queue_of(queue)->stream),
                     "wait");
    below->launch(queue, launch);
}

static void an_operation_that_waits_is_not_captured(void)
{
    struct program p = program_new(3);
    struct device_ops waits = *p.device->ops;
    below = p.device->ops;
    waits.launch = a_launch_that_waits;
    p.device->ops = &waits;
    for (int round = 0; round < ROUNDS; round++)
        section(&p, &p, LAUNCHES, 0.25f);
    struct replay_counts counts = counts_of(&p);
    CHECK(is_right(&p) && device_failure(p.device, NULL) == 0 && counts.replayed == 0);
    CHECK(counts.refused && strstr(counts.refused->text, "cudaErrorStreamCaptureUnsupported"));
    p.device->ops = below;
    program_free(&p);
}

static void what_never_repeats_is_given_up(void)
{
    struct program p = program_new(0);
    for (int round = 0; round < REPLAY_RECORDS_MAX + 8; round++) {
        section(&p, &p, REPLAY_WORKS_LEAST, (float)round / 4096);
        if (round % 64 == 0)
            CHECK(is_right(&p));
    }
    CHECK(is_right(&p) && counts_of(&p).gives_up);
    CHECK(counts_of(&p).recorded == REPLAY_RECORDS_MAX);
    program_free(&p);
}

static void what_repeats_goes_on_when_all_are_dropped(void)
{
    struct program p = program_new(0);
    for (int round = 0; round < REPLAY_RECORDS_MAX / 2 + 8; round++) {
        for (int again = 0; again < 4; again++)
            section(&p, &p, REPLAY_WORKS_LEAST, (float)round / 4096);
        section(&p, &p, REPLAY_WORKS_LEAST, -(float)(round + 1));
        if (round % 64 == 0)
            CHECK(is_right(&p));
    }
    CHECK(is_right(&p) && !counts_of(&p).gives_up);
    CHECK(counts_of(&p).recorded > REPLAY_RECORDS_MAX);
    program_free(&p);
}

static void work_of_a_graph_may_fail(void)
{
    struct fake_options options = gpu_options(1);
    options.fail_at = 4 + 3 * LAUNCHES; /* in the second graph */
    struct program p = {.device = gpu_hosted(&options)};
    device_choose_graphs(p.device, DEVICE_GRAPHS_ON);
    p.queue = a_queue(p.device);
    p.y = device_buffer(p.device, BYTES);
    queue_fill(p.queue, p.y, 0, BYTES);
    for (int round = 0; round < ROUNDS; round++)
        section(&p, &p, LAUNCHES, 0.25f);
    CHECK(queue_finish(p.queue, NULL) == WK_EIO);
    device_memory_free(p.device, p.y, BYTES);
    queue_free(p.queue);
    device_free(p.device);
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(a_sequence_becomes_a_graph),
        CHECK_CASE(without_a_choice_nothing_is_recorded),
        CHECK_CASE(an_argument_that_changes_counts),
        CHECK_CASE(several_sequences_take_turns),
        CHECK_CASE(copies_and_fills_repeat),
        CHECK_CASE(a_copy_from_elsewhere_is_another),
        CHECK_CASE(events_end_a_sequence),
        CHECK_CASE(short_sequences_are_none_and_long_ones_are_cut),
        CHECK_CASE(owners_drop_their_own),
        CHECK_CASE(what_was_captured_is_of_no_use_after_a_change),
        CHECK_CASE(what_cannot_be_captured_is_enqueued),
        CHECK_CASE(an_operation_that_waits_is_not_captured),
        CHECK_CASE(what_never_repeats_is_given_up),
        CHECK_CASE(what_repeats_goes_on_when_all_are_dropped),
        CHECK_CASE(work_of_a_graph_may_fail),
        {NULL, NULL},
    };
    return check_all(cases, argc, argv);
}
