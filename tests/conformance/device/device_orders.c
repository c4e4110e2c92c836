/* Random programs on the rehearsal device: what it finds against an oracle that lists, for each
 * piece of work, all that is before it; and what programs without a mistake compute against a run
 * in the order of the calls. Under ThreadSanitizer, which reports mistakes itself
 * (device_fibers.c), all programs are without one. */
#include <inttypes.h>

#include <worker/error.h>

#include "common/base/rng.h"
#include "libworker/device/cpu.h"
#include "libworker/device/rehearsal/fiber.h"
#include "libworker/device/rehearsal/rehearsal.h"
#include "tests/conformance/device/programs.h"

enum { QUEUES = 4, WORK = 60, ELEMENTS = 1500, PROGRAMS = FIBERS ? 200 : 1500 };

/* out[i] = (add ? out[i] : 0) + 3 * in[i] + more, in the order of i; in and out may overlap. */
struct mix {
    uint32_t *out;
    const uint32_t *in;
    int count;
    uint32_t more;
    bool add;
};

static void run_mix(struct queue *queue, const void *args)
{
    (void)queue;
    const struct mix *m = args;
    for (int i = 0; i < m->count; i++)
        m->out[i] = (m->add ? m->out[i] : 0) + 3 * m->in[i] + m->more;
}

/* One piece of work as the oracle knows it. `before` has a bit for each that is before it. */
struct piece {
    uint64_t before;
    int queue;
    int out, in, count; /* elements; count 0: it uses nothing */
};

struct program {
    struct device *device;
    struct queue *queues[QUEUES];
    uint32_t *buffer;
    struct piece pieces[WORK];
    struct event events[WORK]; /* recorded after each piece */
    int n, last[QUEUES];       /* latest piece of each queue, or -1 */
    uint64_t host;             /* what the host has waited for */
    uint32_t serial[ELEMENTS]; /* the buffer of a run in the order of the calls */
    uint64_t conflicts[WORK];  /* earlier pieces that each one conflicts with */
    int n_conflicts;
    int n_found;
};

static uint64_t bit(long piece)
{
    return (uint64_t)1 << piece;
}

/* A piece is reported under its number; the pair must be one of the oracle's. */
static void on_finding(void *self, const char *sentence)
{
    struct program *p = self;
    const char *a = strstr(sentence, "\"piece "), *b = a ? strstr(a + 1, "\"piece ") : NULL;
    CHECK(strstr(sentence, "an event is missing") && b);
    long first = strtol(a + strlen("\"piece "), NULL, 10);
    long second = strtol(b + strlen("\"piece "), NULL, 10);
    CHECK(0 <= first && first < second && second < WORK && p->conflicts[second] & bit(first));
    p->n_found++;
}

static bool overlap(int a, int b, int count_a, int count_b)
{
    return a < b + count_b && b < a + count_a;
}

static bool use_same_bytes(const struct piece *a, const struct piece *b)
{
    return overlap(a->out, b->out, a->count, b->count) ||
           overlap(a->out, b->in, a->count, b->count) || overlap(a->in, b->out, a->count, b->count);
}

/* The oracle's side of a new piece on a queue. */
static struct piece *piece_add(struct program *p, int queue)
{
    int last = p->last[queue];
    struct piece *piece = &p->pieces[p->n];
    *piece = (struct piece){.queue = queue, .before = p->host};
    if (last >= 0)
        piece->before |= p->pieces[last].before | bit(last);
    p->last[queue] = p->n++;
    return piece;
}

static void recorded(struct program *p, int queue)
{
    p->events[p->n - 1] = event_record(p->queues[queue]);
}

static void let_wait(struct program *p, int queue, int piece)
{
    struct piece *wait = piece_add(p, queue);
    wait->before |= p->pieces[piece].before | bit(piece);
    queue_wait(p->queues[queue], p->events[piece]);
    recorded(p, queue);
}

static void host_waits(struct program *p, int piece)
{
    p->host |= p->pieces[piece].before | bit(piece);
    CHECK(event_wait(p->events[piece], NULL) == 0);
}

/* A launch of random ranges. `careful`: chance that each missing wait is put before it. */
static void add_launch(struct program *p, struct rng *rng, double careful)
{
    struct piece next = {.queue = (int)rng_below(rng, QUEUES), .count = 1};
    next.count += (int)rng_below(rng, ELEMENTS / 4);
    next.out = (int)rng_below(rng, (uint64_t)(ELEMENTS - next.count));
    next.in = (int)rng_below(rng, (uint64_t)(ELEMENTS - next.count));
    for (int i = p->n - 1; i >= 0 && p->n < WORK - 1; i--) {
        int last = p->last[next.queue];
        uint64_t before = p->host | (last >= 0 ? p->pieces[last].before | bit(last) : 0);
        if (p->pieces[i].count && !(before & bit(i)) && use_same_bytes(&p->pieces[i], &next) &&
            rng_chance(rng, careful))
            let_wait(p, next.queue, i);
    }
    if (p->n == WORK - 1)
        return; /* perhaps there was no place for all waits */
    struct piece *piece = piece_add(p, next.queue);
    next.before = piece->before;
    *piece = next;
    int number = p->n - 1;
    for (int i = 0; i < number; i++)
        if (p->pieces[i].count && !(piece->before & bit(i)) && use_same_bytes(&p->pieces[i], piece))
            p->conflicts[number] |= bit(i);
    p->n_conflicts += p->conflicts[number] != 0;

    bool add = rng_chance(rng, 0.5);
    struct mix mix = {p->buffer + piece->out, p->buffer + piece->in, piece->count, (uint32_t)number,
                      add};
    char name[32];
    snprintf(name, sizeof(name), "piece %d", number);
    LAUNCH(p->queues[next.queue], name, run_mix, mix, uses(mix.in, mix.count, DEVICE_READ),
           uses(mix.out, mix.count, add ? DEVICE_UPDATE : DEVICE_WRITE));
    recorded(p, next.queue);
    mix.out = p->serial + piece->out;
    mix.in = p->serial + piece->in;
    run_mix(NULL, &mix);
}

static void compare_with_serial(struct program *p)
{
    uint32_t got[ELEMENTS];
    for (int q = 0; q < QUEUES; q++)
        CHECK(queue_finish(p->queues[q], NULL) == 0);
    CHECK(queue_read(p->queues[0], got, p->buffer, sizeof(got), NULL) == 0);
    if (p->n_conflicts == 0)
        CHECK(memcmp(got, p->serial, sizeof(got)) == 0);
}

static void run_program(struct program *p, uint64_t seed, double careful)
{
    struct rng rng;
    rng_seed(&rng, seed);
    p->buffer = device_buffer(p->device, sizeof(p->serial));
    for (int q = 0; q < QUEUES; q++) {
        p->queues[q] = a_queue(p->device);
        p->last[q] = -1;
    }
    for (int i = 0; i < ELEMENTS; i++)
        p->serial[i] = (uint32_t)i;
    CHECK(queue_write(p->queues[0], p->buffer, p->serial, sizeof(p->serial), NULL) == 0);
    while (p->n < WORK - 1) {
        if (p->n && rng_chance(&rng, 0.1))
            let_wait(p, (int)rng_below(&rng, QUEUES), (int)rng_below(&rng, (uint64_t)p->n));
        else if (p->n && rng_chance(&rng, 0.05))
            host_waits(p, (int)rng_below(&rng, (uint64_t)p->n));
        else
            add_launch(p, &rng, careful);
    }
    compare_with_serial(p);
    device_memory_free(p->device, p->buffer, sizeof(p->serial));
    for (int q = 0; q < QUEUES; q++)
        queue_free(p->queues[q]);
    device_free(p->device);
}

static struct program *rehearse(uint64_t seed, double careful)
{
    struct program *p = calloc(1, sizeof(*p));
    CHECK(p);
    struct rehearsal_options options = {.seed = seed, .found = on_finding, .self = p};
    CHECK(rehearsal_new(&options, &p->device, NULL) == 0);
    run_program(p, seed, careful);
    if ((p->n_found > 0) != (p->n_conflicts > 0)) {
        fprintf(stderr, "seed %" PRIu64 ": %d found, %d in the oracle\n", seed, p->n_found,
                p->n_conflicts);
        exit(1);
    }
    return p;
}

static void what_is_found_is_what_the_oracle_lists(void)
{
    static const double careful[] = {1, FIBERS ? 1 : 0.98, FIBERS ? 1 : 0.9};
    int with = 0, without = 0;
    for (uint64_t seed = 0; seed < PROGRAMS; seed++) {
        struct program *p = rehearse(seed, careful[seed % 3]);
        *(p->n_conflicts ? &with : &without) += 1;
        free(p);
    }
    printf("%d programs with a mistake, %d without\n", with, without);
    CHECK((FIBERS || with > PROGRAMS / 4) && without > PROGRAMS / 4);
}

static void the_cpu_computes_the_same(void)
{
    for (uint64_t seed = 0; seed < 100; seed++) {
        struct program *p = calloc(1, sizeof(*p));
        CHECK(p && device_cpu_new(&p->device, NULL) == 0);
        run_program(p, seed, 1);
        free(p);
    }
}

/* Which launches ran, in order; each runs twice. */
static int trace[2 * WORK];
static _Atomic int n_trace; /* queues share it, in any order */

static void run_trace(struct queue *queue, const void *args)
{
    (void)queue;
    int i = n_trace++;
    if (i < 2 * WORK)
        trace[i] = *(const int *)args;
}

static void run_traced(uint64_t seed)
{
    struct device *device = NULL;
    struct queue *queues[3];
    float *x[3];
    n_trace = 0;
    CHECK(rehearsal_new(&(struct rehearsal_options){.seed = seed}, &device, NULL) == 0);
    for (int q = 0; q < 3; q++) {
        queues[q] = a_queue(device);
        x[q] = device_buffer(device, 64);
        queue_fill(queues[q], x[q], 0, 64);
    }
    for (int i = 0; i < 30; i++)
        LAUNCH(queues[i % 3], "trace", run_trace, i, uses(x[i % 3], 16, DEVICE_UPDATE));
    for (int q = 0; q < 3; q++)
        CHECK(queue_finish(queues[q], NULL) == 0);
    CHECK(n_trace == 60 && rehearsal_ran(device) == 33);
    for (int q = 0; q < 3; q++) {
        device_memory_free(device, x[q], 64);
        queue_free(queues[q]);
    }
    device_free(device);
}

static void a_seed_repeats_its_order(void)
{
    int first[2 * WORK], orders = 0;
    for (uint64_t seed = 0; seed < 20; seed++) {
        int before[2 * WORK];
        memcpy(before, trace, sizeof(before));
        run_traced(seed);
        memcpy(first, trace, sizeof(first));
        orders += memcmp(before, first, sizeof(first)) != 0;
        run_traced(seed);
        CHECK(memcmp(first, trace, sizeof(first)) == 0);
    }
    CHECK(orders > 10);
}

/* Whatever piece of work the device fails at, later waits say so and all can be freed. */
static void it_fails_where_it_is_told_to(void)
{
    for (uint64_t at = 1; at <= 7; at++)
        for (uint64_t seed = 0; seed < 10; seed++) {
            struct device *device = NULL;
            struct rehearsal_options options = {.seed = seed, .fail_at = at};
            struct error err = {0};
            CHECK(rehearsal_new(&options, &device, NULL) == 0);
            struct queue *queue = a_queue(device), *other = a_queue(device);
            float *x = device_buffer(device, 64), *pinned = pinned_buffer(device, 64);
            memset(pinned, 0, 64);
            queue_send(queue, x, pinned, 64);
            queue_wait(other, event_record(queue));
            for (int i = 0; i < 4; i++)
                affine(other, "work", (struct affine){x, x, 16, 1, 1, true});
            queue_fetch(other, pinned, x, 64);
            int rc = queue_finish(other, &err);
            CHECK(rc == (at <= 6 ? WK_EINTERNAL : 0));
            CHECK(rc == 0 || strstr(err.text, "it was to fail at"));
            pinned[0] = 1; /* the host's again */
            device_memory_free(device, x, 64);
            device_pinned_free(device, pinned, 64);
            CHECK(rc || queue_finish(queue, NULL) == 0);
            queue_free(queue);
            queue_free(other);
            device_free(device);
        }
}

static void its_memory_ends(void)
{
    struct device *device = NULL;
    struct rehearsal_options options = {.memory_bytes = 1000};
    void *more = NULL;
    CHECK(rehearsal_new(&options, &device, NULL) == 0);
    void *most = device_buffer(device, 900);
    CHECK(device_memory_new(device, 101, &more, NULL) == WK_ENOMEM);
    void *pinned = pinned_buffer(device, 1000); /* is not the device's */
    struct numbers *numbers = NULL;
    CHECK(numbers_new(device, 13, &numbers, NULL) == WK_ENOMEM && !numbers);
    void *rest = device_buffer(device, 100);
    device_memory_free(device, most, 900);
    most = device_buffer(device, 900);
    device_memory_free(device, most, 900);
    device_memory_free(device, rest, 100);
    device_pinned_free(device, pinned, 1000);
    device_free(device);
}

static void keep_sentence(void *self, const char *sentence)
{
    snprintf(self, REHEARSAL_SENTENCE_MAX, "%s", sentence);
}

/* Freed memory is recognised for a while, and then really released. */
static void the_latest_freed_memories_are_recognised(void)
{
    enum { MEMORIES = 2 * REHEARSAL_FREED_MAX, BYTES = 5000 };
    static void *memory[MEMORIES];
    char said[REHEARSAL_SENTENCE_MAX] = "";
    struct device *device = NULL;
    struct rehearsal_options options = {.found = keep_sentence, .self = said};
    CHECK(rehearsal_new(&options, &device, NULL) == 0);
    for (int i = 0; i < MEMORIES; i++)
        memory[i] = device_buffer(device, BYTES);
    for (int i = 0; i < MEMORIES; i++)
        device_memory_free(device, memory[i], BYTES);
    CHECK(!*said);
    device_memory_free(device, memory[MEMORIES - REHEARSAL_FREED_MAX], BYTES);
    CHECK(strstr(said, "which was freed"));
    device_memory_free(device, memory[MEMORIES - REHEARSAL_FREED_MAX - 1], BYTES);
    CHECK(strstr(said, "an unknown address"));
    device_free(device);
}

static const struct check_case cases[] = {
    CHECK_CASE(what_is_found_is_what_the_oracle_lists),
    CHECK_CASE(the_cpu_computes_the_same),
    CHECK_CASE(a_seed_repeats_its_order),
    CHECK_CASE(it_fails_where_it_is_told_to),
    CHECK_CASE(its_memory_ends),
    CHECK_CASE(the_latest_freed_memories_are_recognised),
    {0},
};

int main(int argc, char **argv)
{
    return check_all(cases, argc, argv);
}
