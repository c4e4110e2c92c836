/* The contract of device.h and numbers.h, on each implementation:
 *
 *     device_suite cpu | rehearsal | cuda [CASE]
 *
 * The rehearsal device, and that of CUDA over a runtime without a GPU (tests/cuda), are tried with
 * many seeds; a finding ends the program. */
#include <worker/error.h>

#include "libworker/device/cpu.h"
#include "libworker/device/rehearsal/rehearsal.h"
#include "libworker/device/slots.h"
#include "tests/conformance/device/programs.h"
#ifdef DEVICE_SUITE_CUDA
#include "tests/cuda/fake/gpu.h"
#endif

enum { SEEDS = 40, COUNT = 1000 };
#define BYTES (COUNT * sizeof(float))

static bool rehearses, is_gpu;
static uint64_t seed;

static struct device *open_device(void)
{
    struct device *device = NULL;
    struct rehearsal_options options = {.seed = seed};
#ifdef DEVICE_SUITE_CUDA
    const struct fake_options gpu = gpu_options(seed);
    if (is_gpu)
        return gpu_hosted(&gpu);
#endif
    if (rehearses)
        CHECK(rehearsal_new(&options, &device, NULL) == 0);
    else
        CHECK(device_cpu_new(&device, NULL) == 0);
    return device;
}

static void memory_is_aligned_and_keeps_its_content(void)
{
    static const size_t sizes[] = {0, 1, 63, 64, 65, 4096, 100000, 5 * 1024 * 1024};
    enum { SIZES = sizeof(sizes) / sizeof(*sizes) };
    struct device *device = open_device();
    struct queue *queue = a_queue(device);
    unsigned char *memory[SIZES];
    for (int i = 0; i < SIZES; i++) {
        memory[i] = device_buffer(device, sizes[i]);
        CHECK((uintptr_t)memory[i] % DEVICE_ALIGN_BYTES == 0);
        queue_fill(queue, memory[i], (unsigned char)(i + 1), sizes[i]);
    }
    CHECK(queue_finish(queue, NULL) == 0);
    for (int i = 0; i < SIZES; i++) {
        unsigned char *copy = malloc(sizes[i] + 1);
        CHECK(copy && queue_read(queue, copy, memory[i], sizes[i], NULL) == 0);
        for (size_t b = 0; b < sizes[i]; b++)
            CHECK(copy[b] == i + 1);
        free(copy);
        device_memory_free(device, memory[i], sizes[i]);
    }
    device_memory_free(device, NULL, 0);
    queue_free(queue);
    queue_free(NULL);
    device_free(device);
    device_free(NULL);
}

static void what_is_too_large_is_an_error_that_is_survived(void)
{
    struct device *device = open_device();
    void *memory = NULL;
    struct error err = {0};
    CHECK(device_memory_new(device, (size_t)1 << 60, &memory, &err) == WK_ENOMEM);
    CHECK(strstr(err.text, "device memory left") && !memory);
    CHECK(device_pinned_new(device, (size_t)1 << 60, &memory, &err) == WK_ENOMEM);
    CHECK(strstr(err.text, "pinned memory left") && !memory);
    memory = device_buffer(device, 64);
    CHECK(device_failure(device, NULL) == 0);
    device_memory_free(device, memory, 64);
    device_free(device);
}

static void at_most_sixteen_queues_at_a_time(void)
{
    struct device *device = open_device();
    struct queue *queues[DEVICE_QUEUES_MAX], *more = NULL;
    struct error err = {0};
    for (int i = 0; i < DEVICE_QUEUES_MAX; i++)
        queues[i] = a_queue(device);
    CHECK(queue_new(device, &more, &err) == WK_ENOMEM && !more);
    CHECK(strstr(err.text, "16 queues"));
    queue_free(queues[3]);
    queues[3] = a_queue(device);
    CHECK(queue_device(queues[3]) == device);
    for (int i = 0; i < DEVICE_QUEUES_MAX; i++)
        queue_free(queues[i]);
    device_free(device);
}

static void a_queue_runs_in_order(void)
{
    struct device *device = open_device();
    struct queue *queue = a_queue(device);
    float *x = device_buffer(device, BYTES), *y = device_buffer(device, BYTES), got[COUNT];
    queue_fill(queue, x, 0, BYTES);
    for (int i = 1; i <= 10; i++) {
        affine(queue, "double", (struct affine){y, x, COUNT, 2, (float)i, false});
        queue_copy(queue, x, y, BYTES);
    }
    affine(queue, "add", (struct affine){x, y, COUNT, 1, 0, true});
    CHECK(queue_read(queue, got, x, BYTES, NULL) == 0);
    float want = 0;
    for (int i = 1; i <= 10; i++)
        want = 2 * want + (float)i;
    for (int i = 0; i < COUNT; i++)
        CHECK(got[i] == 2 * want);
    device_memory_free(device, x, BYTES);
    device_memory_free(device, y, BYTES);
    queue_free(queue);
    device_free(device);
}

static void a_launch_is_copied(void)
{
    struct device *device = open_device();
    struct queue *queue = a_queue(device);
    float *x = device_buffer(device, BYTES), got[COUNT];
    char name[] = "launch";
    queue_fill(queue, x, 0, BYTES);
    struct affine args = {x, x, COUNT, 1, 1, false};
    struct device_range ranges[] = {uses(x, COUNT, DEVICE_UPDATE), {x, 0, DEVICE_READ}};
    struct device_launch launch = {name, run_affine, &args, sizeof(args), ranges, 2};
    for (int i = 0; i < 5; i++)
        queue_launch(queue, &launch);
    args = (struct affine){0};
    ranges[0] = (struct device_range){0};
    name[0] = '?';
    launch = (struct device_launch){0};
    CHECK(queue_read(queue, got, x, BYTES, NULL) == 0);
    for (int i = 0; i < COUNT; i++)
        CHECK(got[i] == 5);
    device_memory_free(device, x, BYTES);
    queue_free(queue);
    device_free(device);
}

/* Two queues fill and drain two buffers by turns, ordered by events both ways. */
static void events_order_queues(void)
{
    struct device *device = open_device();
    struct queue *fill = a_queue(device), *drain = a_queue(device);
    float *buffers[2], *sum = device_buffer(device, BYTES), got[COUNT];
    struct event drained[2] = {{0}};
    queue_fill(drain, sum, 0, BYTES);
    queue_wait(fill, event_record(drain));
    for (int i = 0; i < 2; i++)
        buffers[i] = device_buffer(device, BYTES);
    for (int i = 1; i <= 20; i++) {
        float *buffer = buffers[i % 2];
        queue_wait(fill, drained[i % 2]);
        queue_fill(fill, buffer, 0, BYTES);
        affine(fill, "fill", (struct affine){buffer, buffer, COUNT, 0, (float)i, true});
        queue_wait(drain, event_record(fill));
        affine(drain, "drain", (struct affine){sum, buffer, COUNT, 1, 0, true});
        drained[i % 2] = event_record(drain);
    }
    queue_wait(fill, event_record(drain));
    CHECK(queue_read(fill, got, sum, BYTES, NULL) == 0);
    for (int i = 0; i < COUNT; i++)
        CHECK(got[i] == 20 * 21 / 2);
    for (int i = 0; i < 2; i++)
        device_memory_free(device, buffers[i], BYTES);
    device_memory_free(device, sum, BYTES);
    queue_free(fill);
    queue_free(drain);
    device_free(device);
}

/* Neighbours in one page are different memory to events. */
static void queues_share_a_page(void)
{
    struct device *device = open_device();
    struct queue *queues[4];
    float *x = device_buffer(device, 4 * 16 * sizeof(float)), got[4 * 16];
    for (int q = 0; q < 4; q++)
        queues[q] = a_queue(device);
    for (int q = 0; q < 4; q++)
        queue_fill(queues[q], x + 16 * q, 0, 16 * sizeof(float));
    for (int i = 0; i < 5; i++)
        for (int q = 0; q < 4; q++)
            affine(queues[q], "own",
                   (struct affine){x + 16 * q, x + 16 * q, 16, 1, (float)(q + 1), false});
    for (int q = 1; q < 4; q++)
        queue_wait(queues[0], event_record(queues[q]));
    CHECK(queue_read(queues[0], got, x, sizeof(got), NULL) == 0);
    for (int i = 0; i < 4 * 16; i++)
        CHECK(got[i] == (float)(5 * (i / 16 + 1)));
    device_memory_free(device, x, sizeof(got));
    for (int q = 0; q < 4; q++)
        queue_free(queues[q]);
    device_free(device);
}

static void pinned_memory_goes_both_ways(void)
{
    struct device *device = open_device();
    struct queue *queue = a_queue(device), *other = a_queue(device);
    float *x = device_buffer(device, BYTES), *to = pinned_buffer(device, BYTES),
          *back = pinned_buffer(device, BYTES);
    CHECK((uintptr_t)to % DEVICE_ALIGN_BYTES == 0);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < COUNT; i++)
            to[i] = (float)(i + round);
        /* In two parts, and once more around from the memory that it came to. */
        queue_send(queue, x, to, BYTES / 2);
        queue_send(queue, x + COUNT / 2, to + COUNT / 2, BYTES / 2);
        struct event sent = event_record(queue);
        affine(queue, "add", (struct affine){x, x, COUNT, 1, 1, false});
        queue_fetch(queue, back, x, BYTES);
        queue_send(queue, x, back, BYTES);
        affine(queue, "add", (struct affine){x, x, COUNT, 2, 0, false});
        queue_wait(other, event_record(queue));
        queue_fetch(other, back, x, BYTES);
        CHECK(event_wait(sent, NULL) == 0);
        to[0] = -1; /* the host's again */
        CHECK(queue_finish(other, NULL) == 0);
        for (int i = 0; i < COUNT; i++)
            CHECK(back[i] == (float)(2 * (i + round + 1)));
    }
    device_memory_free(device, x, BYTES);
    device_pinned_free(device, to, BYTES);
    device_pinned_free(device, back, BYTES);
    queue_free(queue);
    queue_free(other);
    device_free(device);
}

static void the_host_reads_and_writes_with_ordinary_memory(void)
{
    struct device *device = open_device();
    struct queue *queue = a_queue(device);
    float *x = device_buffer(device, BYTES), host[COUNT];
    for (int i = 0; i < COUNT; i++)
        host[i] = (float)i;
    CHECK(queue_write(queue, x, host, BYTES, NULL) == 0);
    memset(host, 0, sizeof(host));
    CHECK(queue_read(queue, host + 500, x + 500, BYTES / 2, NULL) == 0);
    for (int i = 0; i < COUNT; i++)
        CHECK(host[i] == (i < 500 ? 0.0F : (float)i));
    if (device_host_reads(device))
        CHECK(x[7] == 7);
    CHECK(device_host_reads(device) == !(rehearses || is_gpu));
    CHECK(strcmp(device_name(device), rehearses ? "rehearsal" : is_gpu ? "cuda" : "cpu") == 0);
    device_memory_free(device, x, BYTES);
    queue_free(queue);
    device_free(device);
}

static void events_can_be_waited_for_in_any_order(void)
{
    struct device *device = open_device();
    struct queue *queue = a_queue(device);
    struct event events[5];
    float *x = device_buffer(device, BYTES), *at[5];
    queue_fill(queue, x, 0, BYTES);
    for (int i = 0; i < 5; i++) {
        at[i] = pinned_buffer(device, BYTES);
        affine(queue, "add", (struct affine){x, x, COUNT, 1, 1, false});
        queue_fetch(queue, at[i], x, BYTES);
        events[i] = event_record(queue);
    }
    CHECK(event_wait((struct event){0}, NULL) == 0);
    CHECK(event_wait(events[2], NULL) == 0);
    CHECK(at[2][9] == 3);
    CHECK(event_wait(events[0], NULL) == 0 && event_wait(events[0], NULL) == 0);
    CHECK(at[0][9] == 1);
    CHECK(event_wait(events[4], NULL) == 0);
    CHECK(at[3][9] == 4 && at[4][9] == 5);
    for (int i = 0; i < 5; i++)
        device_pinned_free(device, at[i], BYTES);
    device_memory_free(device, x, BYTES);
    queue_free(queue);
    device_free(device);
}

struct count {
    double *to;
    double more;
};

static void run_count(struct queue *queue, const void *args)
{
    (void)queue;
    const struct count *count = args;
    *count->to += count->more;
}

static void numbers_come_with_one_wait(void)
{
    struct device *device = open_device();
    struct queue *queue = a_queue(device);
    struct numbers *numbers = NULL;
    const double *values = NULL;
    CHECK(numbers_new(device, 4, &numbers, NULL) == 0);
    for (int step = 1; step <= 3; step++) {
        numbers_clear(numbers, queue);
        for (int i = 0; i < 4; i++)
            for (int pass = 0; pass < 3; pass++) {
                struct count count = {numbers_at(numbers) + i, i + 0.5 * step};
                LAUNCH(queue, "count", run_count, count, {count.to, sizeof(double), DEVICE_UPDATE});
            }
        numbers_fetch(numbers, queue);
        CHECK(numbers_wait(numbers, &values, NULL) == 0);
        for (int i = 0; i < 4; i++)
            CHECK(values[i] == 3 * (i + 0.5 * step));
    }
    numbers_free(numbers);
    numbers_free(NULL);
    queue_free(queue);
    device_free(device);
}

static void run_failure(struct queue *queue, const void *args)
{
    (void)args;
    queue_fail(queue, WK_EOVERFLOW, "kernel %d of %d", 1, 2);
    queue_fail(queue, WK_EIO, "a later one");
}

static void a_failure_stays(void)
{
    struct device *device = open_device();
    struct queue *queue = a_queue(device);
    float *x = device_buffer(device, BYTES), *back = pinned_buffer(device, BYTES), got[COUNT];
    struct error err = {0};
    queue_fill(queue, x, 0, BYTES);
    CHECK(queue_finish(queue, &err) == 0 && device_failure(device, &err) == 0);
    struct event before = event_record(queue);
    int none = 0;
    LAUNCH(queue, "failure", run_failure, none, uses(x, COUNT, DEVICE_UPDATE));
    queue_fetch(queue, back, x, BYTES);
    CHECK(queue_finish(queue, &err) == WK_EOVERFLOW);
    CHECK(strstr(err.text, "kernel 1 of 2"));
    back[0] = 1; /* the host's again */
    affine(queue, "later", (struct affine){x, x, COUNT, 0, 1, true});
    queue_send(queue, x, back, BYTES);
    err = (struct error){0};
    CHECK(event_wait(before, &err) == WK_EOVERFLOW && strstr(err.text, "kernel 1 of 2"));
    CHECK(queue_read(queue, got, x, BYTES, &err) == WK_EOVERFLOW);
    CHECK(queue_write(queue, x, got, BYTES, &err) == WK_EOVERFLOW);
    CHECK(device_failure(device, &err) == WK_EOVERFLOW && err.code == WK_EOVERFLOW);
    device_memory_free(device, x, BYTES);
    device_pinned_free(device, back, BYTES);
    queue_free(queue);
    device_free(device);
}

enum { PARTS = 5, SLOTS = 2 };

/* Parts of one to three granules: the even ones in slot 0, the odd ones in slot 1. */
static struct slots *some_slots(struct queue *queue, size_t *ret_granule)
{
    struct slots *slots = NULL;
    struct slots_part parts[PARTS];
    size_t granule = slots_granule(queue_device(queue)), end = 0;
    size_t step = granule ? granule : BYTES;
    for (int i = 0; i < PARTS; i++) {
        parts[i] = (struct slots_part){end, (size_t)(i % 3) * step + BYTES, i % SLOTS};
        end += (size_t)(i % 3 + 1) * step;
    }
    CHECK(slots_new(queue, parts, PARTS, SLOTS, &slots, NULL) == 0);
    *ret_granule = granule;
    return slots;
}

static float *part_at(const struct slots *slots, size_t granule, int part)
{
    size_t before = 0;
    for (int i = 0; i < part; i++)
        before += (size_t)(i % 3 + 1) * (granule ? granule : BYTES);
    return (float *)((char *)slots_data(slots) + before);
}

/* Part by part: written on one queue, then read on another one, whose end the next one follows. */
static void parts_take_turns(void)
{
    struct device *device = open_device();
    struct queue *queue = a_queue(device), *writes = a_queue(device);
    float *sum = device_buffer(device, BYTES), got[COUNT];
    size_t granule = 0;
    struct slots *slots = some_slots(queue, &granule);
    queue_fill(queue, sum, 0, BYTES);
    struct event left[SLOTS] = {event_record(queue), event_record(queue)};
    for (int turn = 0; turn < 4 * PARTS; turn++) {
        int part = 3 * turn % PARTS, slot = part % SLOTS;
        float *at = part_at(slots, granule, part);
        if (slots_holder(slots, part) >= 0)
            slots_leave(slots, slots_holder(slots, part));
        if (slots_taken(slots, part))
            slots_leave(slots, part);
        left[slot] = event_record(queue);
        CHECK(slots_take(slots, part) == 0 && slots_holder(slots, part) < 0);
        queue_wait(writes, left[slot]);
        queue_fill(writes, at, 0, BYTES);
        affine(writes, "fill", (struct affine){at, at, COUNT, 1, 1, true});
        queue_wait(queue, event_record(writes));
        affine(queue, "sum", (struct affine){sum, at, COUNT, 1, 0, true});
    }
    CHECK(queue_read(queue, got, sum, BYTES, NULL) == 0);
    for (int i = 0; i < COUNT; i++)
        CHECK(got[i] == 4 * PARTS);
    CHECK(slots_peak(slots) == (granule ? 5 * granule : PARTS * 2 * BYTES - BYTES));
    CHECK(queue_finish(writes, NULL) == 0);
    slots_free(slots);
    device_memory_free(device, sum, BYTES);
    queue_free(writes);
    queue_free(queue);
    device_free(device);
}

/* All at once have what they were given; then their memory is given back. */
static void parts_are_set_apart(void)
{
    struct device *device = open_device();
    struct queue *queue = a_queue(device);
    size_t granule = 0;
    struct slots *slots = some_slots(queue, &granule);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < PARTS; i++) {
            if (slots_holder(slots, i) >= 0)
                CHECK(slots_set_apart(slots, i) == 0);
            CHECK(slots_take(slots, i) == 0);
            queue_fill(queue, part_at(slots, granule, i), (unsigned char)(i + 1), BYTES);
        }
        CHECK(slots_apart(slots));
        for (int i = 0; i < PARTS; i++) {
            unsigned char got[BYTES];
            CHECK(queue_read(queue, got, part_at(slots, granule, i), BYTES, NULL) == 0);
            CHECK(got[0] == i + 1 && got[BYTES - 1] == i + 1);
        }
        size_t all = slots_bytes(slots);
        CHECK(slots_rest(slots) == 0 && !slots_apart(slots));
        CHECK(slots_bytes(slots) == (granule ? 0 : all) && slots_peak(slots) == all);
    }
    slots_free(slots);
    slots_free(NULL);
    queue_free(queue);
    device_free(device);
}

/* Work that is not waited for has used its old memory. */
static void a_part_is_set_apart_while_it_is_used(void)
{
    struct device *device = open_device();
    struct queue *queue = a_queue(device);
    unsigned char got[BYTES];
    size_t granule = 0;
    struct slots *slots = some_slots(queue, &granule);
    for (int part = 0; part <= SLOTS; part += SLOTS) {
        CHECK(slots_take(slots, part) == 0);
        queue_fill(queue, part_at(slots, granule, part), (unsigned char)(part + 1), BYTES);
        if (part == 0)
            slots_leave(slots, part);
    }
    CHECK(slots_holder(slots, 0) == SLOTS && slots_same(slots, 0, SLOTS));
    CHECK(slots_set_apart(slots, 0) == 0 && slots_take(slots, 0) == 0);
    queue_fill(queue, part_at(slots, granule, 0), 7, BYTES);
    CHECK(queue_read(queue, got, part_at(slots, granule, SLOTS), BYTES, NULL) == 0);
    CHECK(got[0] == SLOTS + 1 && got[BYTES - 1] == SLOTS + 1);
    CHECK(queue_read(queue, got, part_at(slots, granule, 0), BYTES, NULL) == 0);
    CHECK(got[0] == 7 && got[BYTES - 1] == 7);
    slots_free(slots);
    queue_free(queue);
    device_free(device);
}

static const struct check_case cases[] = {
    CHECK_CASE(a_part_is_set_apart_while_it_is_used),
    CHECK_CASE(parts_take_turns),
    CHECK_CASE(parts_are_set_apart),
    CHECK_CASE(memory_is_aligned_and_keeps_its_content),
    CHECK_CASE(what_is_too_large_is_an_error_that_is_survived),
    CHECK_CASE(at_most_sixteen_queues_at_a_time),
    CHECK_CASE(a_queue_runs_in_order),
    CHECK_CASE(a_launch_is_copied),
    CHECK_CASE(events_order_queues),
    CHECK_CASE(queues_share_a_page),
    CHECK_CASE(pinned_memory_goes_both_ways),
    CHECK_CASE(the_host_reads_and_writes_with_ordinary_memory),
    CHECK_CASE(events_can_be_waited_for_in_any_order),
    CHECK_CASE(numbers_come_with_one_wait),
    CHECK_CASE(a_failure_stays),
    {0},
};

int main(int argc, char **argv)
{
    CHECK(argc > 1);
    rehearses = strcmp(argv[1], "rehearsal") == 0;
    is_gpu = strcmp(argv[1], "cuda") == 0;
    for (seed = 1; seed < (rehearses || is_gpu ? SEEDS : 1); seed++)
        for (const struct check_case *c = cases; c->name; c++)
            if (argc < 3 || strcmp(argv[2], c->name) == 0)
                c->run();
    return check_all(cases, argc - 1, argv + 1);
}
