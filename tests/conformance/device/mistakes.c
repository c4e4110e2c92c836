#include "tests/conformance/device/mistakes.h"

#include "tests/conformance/device/programs.h"

/* Two pages and a part, so that there are whole pages and shared ones. */
enum { COUNT = 2 * 1024 + 100 };
#define BYTES (COUNT * sizeof(float))

/* What most programs need. Fields are in the order of their release. */
struct stage {
    struct device *device;
    struct queue *queue, *other;
    float *x, *y, *pinned;
};

static struct stage stage_new(struct device *device)
{
    struct stage s = {device, a_queue(device), a_queue(device)};
    s.x = device_buffer(device, BYTES);
    s.y = device_buffer(device, BYTES);
    s.pinned = pinned_buffer(device, BYTES);
    queue_fill(s.queue, s.x, 0, BYTES);
    queue_fill(s.queue, s.y, 0, BYTES);
    for (int i = 0; i < COUNT; i++)
        s.pinned[i] = (float)i;
    CHECK(queue_finish(s.queue, NULL) == 0);
    return s;
}

static void stage_free(struct stage *s)
{
    if (s->queue)
        CHECK(queue_finish(s->queue, NULL) == 0);
    CHECK(queue_finish(s->other, NULL) == 0);
    device_memory_free(s->device, s->x, BYTES);
    device_memory_free(s->device, s->y, BYTES);
    device_pinned_free(s->device, s->pinned, BYTES);
    queue_free(s->queue);
    queue_free(s->other);
}

static float first_of(const struct stage *s, const float *at)
{
    float value;
    CHECK(queue_finish(s->queue, NULL) == 0 && queue_finish(s->other, NULL) == 0);
    CHECK(queue_read(s->queue, &value, at, sizeof(value), NULL) == 0);
    return value;
}

/* What reads does not wait for what writes. */
static int missing_event(struct device *device, bool wrong)
{
    struct stage s = stage_new(device);
    affine(s.queue, "writer", (struct affine){s.x, s.x, COUNT, 1, 1, true});
    if (!wrong)
        queue_wait(s.other, event_record(s.queue));
    affine(s.other, "reader", (struct affine){s.y, s.x, COUNT, 1, 0, false});
    int order = first_of(&s, s.y) == 1;
    stage_free(&s);
    return order;
}

static int event_recorded_too_early(struct device *device, bool wrong)
{
    struct stage s = stage_new(device);
    affine(s.queue, "before", (struct affine){s.x, s.x, COUNT, 1, 1, true});
    struct event event = event_record(s.queue);
    affine(s.queue, "writer", (struct affine){s.x, s.x, COUNT, 1, 1, true});
    queue_wait(s.other, wrong ? event : event_record(s.queue));
    affine(s.other, "reader", (struct affine){s.y, s.x, COUNT, 1, 0, false});
    int order = first_of(&s, s.y) == 3;
    stage_free(&s);
    return order;
}

/* The reader waits for a queue that has not itself waited for the writer. */
static int chain_with_a_missing_link(struct device *device, bool wrong)
{
    struct stage s = stage_new(device);
    struct queue *third = a_queue(device);
    affine(s.queue, "writer", (struct affine){s.x, s.x, COUNT, 1, 1, true});
    if (!wrong)
        queue_wait(third, event_record(s.queue));
    queue_wait(s.other, event_record(third));
    affine(s.other, "reader", (struct affine){s.y, s.x, COUNT, 1, 0, false});
    int order = first_of(&s, s.y) == 1;
    CHECK(queue_finish(third, NULL) == 0);
    queue_free(third);
    stage_free(&s);
    return order;
}

/* An activation's place is used again while its reader may still run. */
static int reuse_too_early(struct device *device, bool wrong)
{
    struct stage s = stage_new(device);
    affine(s.queue, "old user", (struct affine){s.y, s.x, COUNT, 1, 1, false});
    if (!wrong)
        queue_wait(s.other, event_record(s.queue));
    affine(s.other, "new user", (struct affine){s.x, s.x, COUNT, 0, 5, true});
    int order = first_of(&s, s.y) == 1;
    stage_free(&s);
    return order;
}

/* Of a region, they overlap by one element. */
static int overlapping_plan(struct device *device, bool wrong)
{
    struct stage s = stage_new(device);
    affine(s.queue, "left", (struct affine){s.x, s.y, COUNT / 2, 0, 1, false});
    int shift = wrong ? 1 : 0;
    affine(s.other, "right", (struct affine){s.x + COUNT / 2 - shift, s.y, COUNT / 2, 0, 2, false});
    float at = first_of(&s, s.x + COUNT / 2 - 1);
    stage_free(&s);
    return at == 1;
}

static int host_reads_device_memory(struct device *device, bool wrong)
{
    struct stage s = stage_new(device);
    const volatile float *at = wrong ? s.x : s.pinned;
    CHECK(at[1] >= 0);
    stage_free(&s);
    return 0;
}

static int host_writes_device_memory(struct device *device, bool wrong)
{
    struct stage s = stage_new(device);
    volatile float *at = wrong ? s.x : s.pinned;
    at[COUNT - 1] = 1;
    stage_free(&s);
    return 0;
}

/* The source of a copy in flight; the last element shares its page with nothing. */
static int write_to_a_source_in_flight(struct device *device, bool wrong)
{
    struct stage s = stage_new(device);
    queue_send(s.queue, s.x, s.pinned, BYTES);
    if (!wrong)
        CHECK(queue_finish(s.queue, NULL) == 0);
    CHECK(*(volatile float *)&s.pinned[3] == 3); /* reading is allowed */
    *(volatile float *)&s.pinned[COUNT - 1] = 9;
    stage_free(&s);
    return 0;
}

/* The same with ten floats, whose neighbours in the page stay the host's. */
static int write_to_a_small_source_in_flight(struct device *device, bool wrong)
{
    struct stage s = stage_new(device);
    queue_send(s.queue, s.x, s.pinned, 10 * sizeof(float));
    s.pinned[10] = 9;
    if (!wrong)
        CHECK(queue_finish(s.queue, NULL) == 0);
    s.pinned[9] = 8;
    stage_free(&s);
    return 0;
}

static int read_of_a_target_in_flight(struct device *device, bool wrong)
{
    struct stage s = stage_new(device);
    queue_fetch(s.queue, s.pinned, s.x, BYTES);
    if (!wrong)
        CHECK(queue_finish(s.queue, NULL) == 0);
    CHECK(*(volatile float *)&s.pinned[COUNT - 1] == 0);
    stage_free(&s);
    return 0;
}

static int write_to_a_small_target_in_flight(struct device *device, bool wrong)
{
    struct stage s = stage_new(device);
    queue_fetch(s.queue, s.pinned + 5, s.x, 10 * sizeof(float));
    if (!wrong)
        CHECK(queue_finish(s.queue, NULL) == 0);
    s.pinned[5] = 8;
    stage_free(&s);
    return 0;
}

static int numbers_read_before_the_wait(struct device *device, bool wrong)
{
    struct stage s = stage_new(device);
    struct numbers *numbers = NULL;
    const double *values = NULL;
    CHECK(numbers_new(device, 4, &numbers, NULL) == 0);
    numbers_clear(numbers, s.queue);
    numbers_fetch(numbers, s.queue);
    CHECK(numbers_wait(numbers, &values, NULL) == 0);
    numbers_fetch(numbers, s.queue);
    if (!wrong)
        CHECK(numbers_wait(numbers, &values, NULL) == 0);
    CHECK(*(const volatile double *)&values[1] == 0);
    numbers_free(numbers);
    stage_free(&s);
    return 0;
}

/* The read is declared of one buffer, and done on another. */
static int undeclared_read(struct device *device, bool wrong)
{
    struct stage s = stage_new(device);
    struct affine a = {s.x, s.y, COUNT, 1, 1, false};
    LAUNCH(s.queue, "sloppy", run_affine, a, uses(s.x, COUNT, DEVICE_WRITE),
           uses(wrong ? s.x : s.y, COUNT, DEVICE_READ));
    stage_free(&s);
    return 0;
}

/* One element beside the declared ones, in their page. */
static int undeclared_read_in_the_page(struct device *device, bool wrong)
{
    struct stage s = stage_new(device);
    struct affine a = {s.x, s.y + 10, 10, 1, 1, false};
    LAUNCH(s.queue, "sloppy", run_affine, a, uses(s.x, 10, DEVICE_WRITE),
           uses(s.y + 10, wrong ? 9 : 10, DEVICE_READ));
    stage_free(&s);
    return 0;
}

static int undeclared_write(struct device *device, bool wrong)
{
    struct stage s = stage_new(device);
    struct affine a = {s.x, s.y, COUNT, 1, 1, false};
    LAUNCH(s.queue, "sloppy", run_affine, a, uses(s.x, wrong ? 1024 : COUNT, DEVICE_WRITE),
           uses(s.y, COUNT, DEVICE_READ));
    stage_free(&s);
    return 0;
}

static int undeclared_write_in_the_page(struct device *device, bool wrong)
{
    struct stage s = stage_new(device);
    struct affine a = {s.x + 10, s.y, 10, 1, 1, false};
    LAUNCH(s.queue, "sloppy", run_affine, a, uses(s.x + 10, wrong ? 9 : 10, DEVICE_WRITE),
           uses(s.y, 10, DEVICE_READ));
    stage_free(&s);
    return 0;
}

static int write_past_the_memory(struct device *device, bool wrong)
{
    struct stage s = stage_new(device);
    float *page = device_buffer(device, 4096);
    struct affine a = {page, s.y, wrong ? 1025 : 1024, 1, 1, false};
    LAUNCH(s.queue, "sloppy", run_affine, a, uses(page, 1024, DEVICE_WRITE),
           uses(s.y, COUNT, DEVICE_READ));
    CHECK(queue_finish(s.queue, NULL) == 0);
    device_memory_free(device, page, 4096);
    stage_free(&s);
    return 0;
}

static int write_to_what_is_declared_as_read(struct device *device, bool wrong)
{
    struct stage s = stage_new(device);
    struct affine a = {s.x, s.x, COUNT, 1, 1, false};
    LAUNCH(s.queue, "sloppy", run_affine, a, uses(s.x, COUNT, wrong ? DEVICE_READ : DEVICE_UPDATE));
    stage_free(&s);
    return 0;
}

/* It adds to what it says that it overwrites. */
static int addition_declared_as_write(struct device *device, bool wrong)
{
    struct stage s = stage_new(device);
    struct affine a = {s.x, s.y, COUNT, 1, 1, true};
    LAUNCH(s.queue, "sloppy", run_affine, a, uses(s.y, COUNT, DEVICE_READ),
           uses(s.x, COUNT, wrong ? DEVICE_WRITE : DEVICE_UPDATE));
    stage_free(&s);
    return 0;
}

static int write_that_leaves_bytes_out(struct device *device, bool wrong)
{
    struct stage s = stage_new(device);
    struct affine a = {s.x, s.y, wrong ? COUNT - 1 : COUNT, 1, 1, false};
    LAUNCH(s.queue, "sloppy", run_affine, a, uses(s.y, COUNT, DEVICE_READ),
           uses(s.x, COUNT, DEVICE_WRITE));
    stage_free(&s);
    return 0;
}

/* What a launch left in its scratch memory is not there for the next. */
static int scratch_read_later(struct device *device, bool wrong)
{
    struct stage s = stage_new(device);
    struct affine a = {s.x, s.y, COUNT, 1, 1, false};
    LAUNCH(s.queue, "scratch", run_affine, a, uses(s.y, COUNT, DEVICE_READ),
           uses(s.x, COUNT, wrong ? DEVICE_SCRATCH : DEVICE_WRITE));
    affine(s.queue, "later", (struct affine){s.y, s.x, COUNT, 1, 1, false});
    stage_free(&s);
    return 0;
}

static int read_of_what_was_never_written(struct device *device, bool wrong)
{
    struct stage s = stage_new(device);
    float *fresh = device_buffer(device, BYTES);
    queue_fill(s.queue, fresh, 0, wrong ? BYTES - 4 : BYTES);
    affine(s.queue, "reader", (struct affine){s.y, fresh, COUNT, 1, 0, false});
    CHECK(queue_finish(s.queue, NULL) == 0);
    device_memory_free(device, fresh, BYTES);
    stage_free(&s);
    return 0;
}

static int double_free(struct device *device, bool wrong)
{
    struct stage s = stage_new(device);
    float *more = device_buffer(device, BYTES);
    device_memory_free(device, more, BYTES);
    if (wrong)
        device_memory_free(device, more, BYTES);
    stage_free(&s);
    return 0;
}

static int free_of_what_is_in_use(struct device *device, bool wrong)
{
    struct stage s = stage_new(device);
    float *more = device_buffer(device, BYTES);
    queue_fill(s.other, more, 0, BYTES);
    CHECK(queue_finish(wrong ? s.queue : s.other, NULL) == 0);
    device_memory_free(device, more, BYTES);
    if (!wrong)
        stage_free(&s);
    return 0;
}

static int pinned_free_in_flight(struct device *device, bool wrong)
{
    struct stage s = stage_new(device);
    float *more = pinned_buffer(device, BYTES);
    queue_fetch(s.queue, more, s.x, BYTES);
    if (!wrong)
        CHECK(queue_finish(s.queue, NULL) == 0);
    device_pinned_free(device, more, BYTES);
    stage_free(&s);
    return 0;
}

static int use_after_free(struct device *device, bool wrong)
{
    struct stage s = stage_new(device);
    float *more = device_buffer(device, BYTES);
    if (wrong)
        device_memory_free(device, more, BYTES);
    queue_fill(s.queue, more, 0, BYTES);
    CHECK(queue_finish(s.queue, NULL) == 0);
    if (!wrong)
        device_memory_free(device, more, BYTES);
    stage_free(&s);
    return 0;
}

static int launch_on_a_freed_queue(struct device *device, bool wrong)
{
    struct stage s = stage_new(device);
    struct queue *more = a_queue(device);
    if (wrong)
        queue_free(more);
    affine(more, "late", (struct affine){s.x, s.y, COUNT, 1, 1, false});
    if (!wrong) {
        CHECK(queue_finish(more, NULL) == 0);
        queue_free(more);
    }
    stage_free(&s);
    return 0;
}

static int queue_freed_with_work(struct device *device, bool wrong)
{
    struct stage s = stage_new(device);
    struct queue *more = a_queue(device);
    affine(more, "late", (struct affine){s.x, s.y, COUNT, 1, 1, false});
    if (!wrong)
        CHECK(queue_finish(more, NULL) == 0);
    queue_free(more);
    if (!wrong)
        stage_free(&s);
    return 0;
}

static int queue_freed_twice(struct device *device, bool wrong)
{
    struct stage s = stage_new(device);
    struct queue *more = a_queue(device);
    queue_free(more);
    if (wrong)
        queue_free(more);
    stage_free(&s);
    return 0;
}

static int event_of_a_freed_queue(struct device *device, bool wrong)
{
    struct stage s = stage_new(device);
    struct queue *more = a_queue(device);
    struct event event = event_record(more);
    if (wrong)
        queue_free(more);
    queue_wait(s.queue, event);
    CHECK(queue_finish(s.queue, NULL) == 0);
    if (!wrong)
        queue_free(more);
    stage_free(&s);
    return 0;
}

static int copy_from_ordinary_memory(struct device *device, bool wrong)
{
    static float ordinary[COUNT];
    struct stage s = stage_new(device);
    queue_send(s.queue, s.x, wrong ? ordinary : s.pinned, BYTES);
    stage_free(&s);
    return 0;
}

static int copy_with_sides_exchanged(struct device *device, bool wrong)
{
    struct stage s = stage_new(device);
    queue_fetch(s.queue, wrong ? s.x : s.pinned, wrong ? s.pinned : s.x, BYTES);
    stage_free(&s);
    return 0;
}

static int memory_left_at_the_end(struct device *device, bool wrong)
{
    struct stage s = stage_new(device);
    float *more = device_buffer(device, BYTES);
    if (!wrong)
        device_memory_free(device, more, BYTES);
    stage_free(&s);
    return 0;
}

static int queue_left_at_the_end(struct device *device, bool wrong)
{
    struct stage s = stage_new(device);
    struct queue *more = a_queue(device);
    if (!wrong)
        queue_free(more);
    stage_free(&s);
    return 0;
}

struct nested {
    struct queue *other;
    float *at;
};

static void run_nested(struct queue *queue, const void *args)
{
    (void)queue;
    const struct nested *nested = args;
    if (nested->other)
        queue_fill(nested->other, nested->at, 0, BYTES);
}

static int launch_from_a_launch(struct device *device, bool wrong)
{
    struct stage s = stage_new(device);
    struct nested nested = {wrong ? s.other : NULL, s.y};
    LAUNCH(s.queue, "outer", run_nested, nested, uses(s.x, COUNT, DEVICE_UPDATE));
    stage_free(&s);
    return 0;
}

static void run_finish(struct queue *queue, const void *args)
{
    const struct nested *nested = args;
    (void)queue;
    if (nested->other)
        CHECK(event_wait((struct event){.queue = nested->other}, NULL) == 0);
}

static int wait_in_a_launch(struct device *device, bool wrong)
{
    struct stage s = stage_new(device);
    struct nested nested = {wrong ? s.other : NULL, s.y};
    LAUNCH(s.queue, "outer", run_finish, nested, uses(s.x, COUNT, DEVICE_UPDATE));
    stage_free(&s);
    return 0;
}

const struct mistake mistakes[] = {
    {"missing_event", missing_event, {"\"writer\"", "writes", "\"reader\""}, .both = true},
    {"event_recorded_too_early",
     event_recorded_too_early,
     {"\"writer\"", "writes", "\"reader\""},
     .both = true},
    {"chain_with_a_missing_link",
     chain_with_a_missing_link,
     {"\"writer\"", "writes", "\"reader\""},
     .both = true},
    {"reuse_too_early", reuse_too_early, {"\"old user\"", "reads", "\"new user\""}, .both = true},
    {"overlapping_plan", overlapping_plan, {"\"left\"", "byte 4292 of", "\"right\""}, .both = true},
    {"host_reads_device_memory", host_reads_device_memory, {"host code", "reads byte 4 of device"}},
    {"host_writes_device_memory",
     host_writes_device_memory,
     {"host code", "writes byte 8588 of device"}},
    {"write_to_a_source_in_flight",
     write_to_a_source_in_flight,
     {"host code writes byte 8588", "the source of \"queue_send\"", "before it has waited"}},
    {"write_to_a_small_source_in_flight",
     write_to_a_small_source_in_flight,
     {"host code writes", "the source of \"queue_send\"", "before it has waited"}},
    {"read_of_a_target_in_flight",
     read_of_a_target_in_flight,
     {"host code reads byte 8588", "the target of \"queue_fetch\"", "before it has waited"}},
    {"write_to_a_small_target_in_flight",
     write_to_a_small_target_in_flight,
     {"host code writes byte 20", "the target of \"queue_fetch\"", "before it has waited"}},
    {"numbers_read_before_the_wait",
     numbers_read_before_the_wait,
     {"host code reads byte 8 of pinned", "the target of \"queue_fetch\"", "before"}},
    {"undeclared_read", undeclared_read, {"\"sloppy\"", "reads byte 0 of", "did not declare"}},
    {"undeclared_read_in_the_page",
     undeclared_read_in_the_page,
     {"\"sloppy\"", "depend on bytes that it did not declare", "byte 36 of"}},
    {"undeclared_write",
     undeclared_write,
     {"\"sloppy\"", "writes byte 4096 of", "did not declare"}},
    {"undeclared_write_in_the_page",
     undeclared_write_in_the_page,
     {"\"sloppy\"", "writes bytes that it did not declare", "byte 76 of"}},
    {"write_past_the_memory",
     write_past_the_memory,
     {"\"sloppy\"", "writes byte 4096 of", "did not declare"}},
    {"write_to_what_is_declared_as_read",
     write_to_what_is_declared_as_read,
     {"\"sloppy\"", "declared as read", "byte "}},
    {"addition_declared_as_write",
     addition_declared_as_write,
     {"\"sloppy\"", "did not declare as read", "byte 0 of"}},
    {"write_that_leaves_bytes_out",
     write_that_leaves_bytes_out,
     {"\"sloppy\"", "does not write all bytes", "byte 8588 of"}},
    {"scratch_read_later", scratch_read_later, {"\"later\"", "reads", "no launch has written"}},
    {"read_of_what_was_never_written",
     read_of_what_was_never_written,
     {"\"reader\"", "reads byte 8588 of", "no launch has written"}},
    {"double_free", double_free, {"a free of byte 0", "which was freed"}},
    {"free_of_what_is_in_use",
     free_of_what_is_in_use,
     {"a free of byte 0", "\"queue_fill\"", "has not waited"}},
    {"pinned_free_in_flight",
     pinned_free_in_flight,
     {"a free of byte 0 of pinned", "\"queue_fetch\"", "has not waited"}},
    {"use_after_free", use_after_free, {"\"queue_fill\" declares", "which was freed"}},
    {"launch_on_a_freed_queue", launch_on_a_freed_queue, {"\"late\"", "which was freed"}},
    {"queue_freed_with_work", queue_freed_with_work, {"a free of queue 2", "has not waited"}},
    {"queue_freed_twice", queue_freed_twice, {"a second free of queue 2"}},
    {"event_of_a_freed_queue", event_of_a_freed_queue, {"an event of queue 2", "was freed"}},
    {"copy_from_ordinary_memory", copy_from_ordinary_memory, {"\"queue_send\"", "not pinned"}},
    {"copy_with_sides_exchanged", copy_with_sides_exchanged, {"\"queue_fetch\"", "not pinned"}},
    {"memory_left_at_the_end", memory_left_at_the_end, {"device memory 4", "was not freed"}},
    {"queue_left_at_the_end", queue_left_at_the_end, {"queue 2 was not freed"}},
    {"launch_from_a_launch", launch_from_a_launch, {"\"outer\" enqueues", "\"queue_fill\""}},
    {"wait_in_a_launch", wait_in_a_launch, {"\"outer\" waits"}},
    {"turn_without_an_event",
     turn_without_an_event,
     {"no order between \"slots_leave\"", "\"queue_fill\"", "an event is missing"}},
    {"part_left_while_it_is_read",
     part_left_while_it_is_read,
     {"no order between \"reader\"", "\"slots_leave\"", "an event is missing"}},
    {"part_used_after_its_leave", part_used_after_its_leave, {"\"queue_fill\"", "is not taken"}},
    {"part_used_before_its_take", part_used_before_its_take, {"\"queue_fill\"", "is not taken"}},
    {"part_not_zeroed", part_not_zeroed, {"\"adder\"", "reads", "no launch has written"}},
    {"part_freed_while_it_is_read",
     part_freed_while_it_is_read,
     {"is unmapped", "\"queue_fill\"", "the host has not waited"}},
    {0},
};
