#include "tests/numeric/train/two_level.h"

#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "libworker/parallel/wire.h"
#include "libworker/precision/half.h"
#include "tests/conformance/comm/ranks.h"
#include "tests/lib/check.h"
#include "tests/numeric/train/wires_run.h"

enum { RANKS = 4, LOCALS = 2, HOSTS = 2, GUARD = 16, COUNT_MAX = 5000, UNDER_WAY = 5 };

/* Of this process:
 * FETCHED_EARLY  a copy to the host does not wait for the host's sum
 * NOT_AWAITED    a copy from the host is not waited for, so that a slot is used again too early
 * WRONG_PIECE    it goes to a part of the next piece
 * NOT_SENT       the copy is left out
 */
enum planted_mistake {
    NO_MISTAKE,
    FETCHED_EARLY,
    NOT_AWAITED,
    WRONG_PIECE,
    NOT_SENT,
    MISTAKES_IN_TWO_LEVELS
};
static enum planted_mistake planted;

void __real_stage_fetch(struct stages *stages, struct stage *stage, const struct stage_copy *copy);
void __wrap_stage_fetch(struct stages *stages, struct stage *stage, const struct stage_copy *copy);
void __wrap_stage_fetch(struct stages *stages, struct stage *stage, const struct stage_copy *copy)
{
    struct stage_copy own = *copy;
    if (planted == FETCHED_EARLY)
        own.after = (struct event){0};
    __real_stage_fetch(stages, stage, &own);
}

void __real_stage_send(struct stages *stages, struct stage *stage, const struct stage_copy *copy);
void __wrap_stage_send(struct stages *stages, struct stage *stage, const struct stage_copy *copy);
void __wrap_stage_send(struct stages *stages, struct stage *stage, const struct stage_copy *copy)
{
    struct stage_copy own = *copy;
    if (planted == WRONG_PIECE)
        own.device = (char *)own.device + own.bytes / 2;
    if (planted != NOT_SENT)
        __real_stage_send(stages, stage, &own);
    if (planted == NOT_AWAITED)
        stage->sent = (struct event){0};
}

/* A rank's device, its wires and what they have remarked. */
struct place {
    struct device *device;
    struct queue *queue;
    struct wk_comm *comm;
    struct wires *wires;
    struct wire wire;
    char remarks[1024];
};

static void note_remark(void *arg, const char *sentence)
{
    struct place *place = arg;
    size_t used = strlen(place->remarks);
    snprintf(place->remarks + used, sizeof(place->remarks) - used, "%s\n", sentence);
}

static void found_mistake(void *self, const char *sentence)
{
    (void)self;
    fprintf(stderr, "%s\n", sentence);
    _exit(1);
}

static void open_place(struct place *place, struct wk_comm *comm, bool ordered)
{
    const struct wires_options options = {.fast = !ordered,
                                          .by_hosts = true,
                                          .open_ms = 60000,
                                          .abort_ms = 60000,
                                          .remark = note_remark,
                                          .arg = place};
    *place = (struct place){.comm = comm};
    place->device = own_wires_device((uint64_t)wk_comm_rank(comm), found_mistake, NULL);
    own_wires_give(wires, place->device, OWN_WIRES_WORK);
    CHECK(queue_new(place->device, &place->queue, NULL) == 0);
    CHECK(wires_new(place->queue, &options, &place->wires, NULL) == 0);
    CHECK(wires_meet(place->wires, comm, NULL) == 0);
    wire_init(&place->wire, place->queue, place->wires);
}

static void close_place(struct place *place)
{
    wire_drain(&place->wire);
    (void)queue_finish(place->queue, NULL);
    wire_fini(&place->wire);
    wires_leave(place->wires);
    wires_free(place->wires);
    queue_free(place->queue);
    device_free(place->device);
}

static int run_ranks(rank_fn fn, enum ranks_hosts hosts, int world, void *arg)
{
    const struct ranks ranks = {.kind = RANKS_PROCESSES,
                                .hosts = hosts,
                                .world = world,
                                .timeout_ms = 60000,
                                .wrong_secret_of = -1,
                                .arg = arg};
    own_wires_clear(wires);
    return ranks_run(&ranks, fn);
}

/* Small whole numbers: sums of all ranks are exact in every type and order. */
static int value_of(int rank, size_t i)
{
    return (int)((i * 3 + i / 7 + (size_t)rank * 5) % 13) + 1;
}

static void put_number(void *at, size_t i, enum wk_dtype type, int number)
{
    if (type == WK_F32)
        ((float *)at)[i] = (float)number;
    else if (type == WK_F64)
        ((double *)at)[i] = number;
    else if (type == WK_BF16)
        ((uint16_t *)at)[i] = bf16_of_f32((float)number);
    else if (type == WK_F16)
        ((uint16_t *)at)[i] = f16_of_f32((float)number);
    else if (type == WK_I32)
        ((int32_t *)at)[i] = number;
    else
        ((unsigned char *)at)[i] = (unsigned char)number;
}

/* One call with its memory. */
struct trial {
    struct wire_call call;
    bool in_place;
    size_t in, out; /* elements */
    void *at_in, *at_out, *source;
};

static size_t bytes_of(size_t count, enum wk_dtype type)
{
    return (count + GUARD) * wk_dtype_bytes(type);
}

static void fill_out(struct place *place, struct trial *t)
{
    size_t size = wk_dtype_bytes(t->call.out_type), guarded = t->in_place ? t->out : 0;
    queue_fill(place->queue, (char *)t->at_out + guarded * size, 0x5a,
               (t->out + GUARD - guarded) * size);
    t->call.unused = event_record(place->queue);
}

/* Enqueued and not awaited: the call is after both by their events alone. Either may be later. */
static void write_trial(struct place *place, struct trial *t, size_t bytes)
{
    bool filled_first = t->call.count % 2;
    if (filled_first)
        fill_out(place, t);
    queue_copy(place->queue, (void *)(uintptr_t)t->call.in, t->source, bytes);
    t->call.ready = event_record(place->queue);
    if (!filled_first)
        fill_out(place, t);
    if (t->in_place)
        t->call.unused = event_record(place->queue);
}

static void open_trial(struct place *place, struct trial *t)
{
    static char host[(RANKS * COUNT_MAX + GUARD) * sizeof(double)];
    struct wire_call *call = &t->call;
    size_t world = (size_t)wk_comm_world(place->comm), rank = (size_t)wk_comm_rank(place->comm);
    t->in = call->count * (call->op == WIRE_SCATTER || call->op == WIRE_EXCHANGE ? world : 1);
    t->out = call->count * (call->op == WIRE_GATHER || call->op == WIRE_EXCHANGE ? world : 1);
    size_t row = t->in_place && call->op != WIRE_SUM && call->op != WIRE_SPREAD ? call->count : 0;
    for (size_t i = 0; i < t->in; i++)
        put_number(host, i, call->type, value_of((int)rank, i));
    CHECK(device_memory_new(place->device, bytes_of(t->out, call->out_type), &t->at_out, NULL) ==
          0);
    CHECK(device_memory_new(place->device, bytes_of(t->in, call->type), &t->at_in, NULL) == 0);
    call->in = t->at_in;
    call->out = t->at_out;
    if (t->in_place && call->op == WIRE_SCATTER)
        call->out = (char *)t->at_in + rank * row * wk_dtype_bytes(call->type);
    else if (t->in_place)
        call->in = (char *)t->at_out + rank * row * wk_dtype_bytes(call->type);
    size_t bytes = t->in * wk_dtype_bytes(call->type);
    CHECK(device_memory_new(place->device, bytes, &t->source, NULL) == 0);
    CHECK(queue_write(place->queue, t->source, host, bytes, NULL) == 0);
    write_trial(place, t, bytes);
}

static int expected_at(const struct place *place, const struct trial *t, size_t i)
{
    size_t count = t->call.count, rank = (size_t)wk_comm_rank(place->comm);
    int sum = 0;
    switch (t->call.op) {
    case WIRE_SUM:
    case WIRE_SCATTER:
        for (int r = 0; r < wk_comm_world(place->comm); r++)
            sum += value_of(r, t->call.op == WIRE_SUM ? i : rank * count + i);
        return sum;
    case WIRE_GATHER:
        return value_of((int)(i / count), i % count);
    case WIRE_EXCHANGE:
        return value_of((int)(i / count), rank * count + i % count);
    case WIRE_SPREAD:
        return value_of(t->call.root, i);
    }
    return sum;
}

static void check_trial(struct place *place, struct trial *t)
{
    static char host[(RANKS * COUNT_MAX + GUARD) * sizeof(double)], guard[GUARD * sizeof(double)];
    enum wk_dtype type = t->call.out_type;
    size_t size = wk_dtype_bytes(type);
    CHECK(queue_read(place->queue, host, t->call.out, t->out * size, NULL) == 0);
    for (size_t i = 0; i < t->out; i++) {
        char one[sizeof(double)];
        put_number(one, 0, type, expected_at(place, t, i));
        if (memcmp(one, host + i * size, size) != 0)
            fprintf(stderr, "rank %d, op %d of %zu from type %d to %d: element %zu\n",
                    wk_comm_rank(place->comm), (int)t->call.op, t->call.count, (int)t->call.type,
                    (int)type, i);
        CHECK(memcmp(one, host + i * size, size) == 0);
    }
    memset(host, 0x5a, sizeof(guard));
    CHECK(queue_read(place->queue, guard, (char *)t->at_out + t->out * size, GUARD * size, NULL) ==
          0);
    CHECK(memcmp(guard, host, GUARD * size) == 0);
}

static void close_trial(struct place *place, struct trial *t)
{
    (void)queue_finish(place->queue, NULL);
    device_memory_free(place->device, t->at_out, bytes_of(t->out, t->call.out_type));
    device_memory_free(place->device, t->at_in, bytes_of(t->in, t->call.type));
    device_memory_free(place->device, t->source, t->in * wk_dtype_bytes(t->call.type));
}

static void run_trial(struct place *place, const struct wire_call *call, bool in_place)
{
    struct trial t = {.call = *call, .in_place = in_place};
    struct error err = {0};
    int nonfinite = 2;
    open_trial(place, &t);
    bool asks =
        call->op <= WIRE_SCATTER && call->type == WK_BF16 && !wires_have(place->wires, place->comm);
    t.call.ret_nonfinite = asks ? &nonfinite : NULL;
    int rc = wire_run(&place->wire, place->comm, &t.call, &err);
    if (rc)
        fprintf(stderr, "%s\n", err.text);
    CHECK(!rc && (!asks || !nonfinite));
    check_trial(place, &t);
    close_trial(place, &t);
}

#ifdef MISTAKES_ARE_NOT_SEEN /* a device that is watched takes ten times as long */
static const size_t counts[] = {0, 33, 4099};
#else
static const size_t counts[] = {0, 1, 15, 31, 32, 33, 1000, 4099};
#endif
enum { N_COUNTS = sizeof(counts) / sizeof(counts[0]) };

static void run_all(struct place *place)
{
    static const enum wk_dtype sums[][2] = {{WK_F32, WK_F32}, {WK_BF16, WK_BF16},
                                            {WK_F16, WK_F32}, {WK_F32, WK_BF16},
                                            {WK_I32, WK_I32}, {WK_F64, WK_F64}};
    for (int c = 0; c < N_COUNTS; c++) {
        struct wire_call call = {.count = counts[c]};
        for (int s = 0; s < 6; s++)
            for (call.op = WIRE_SUM; call.op <= WIRE_SCATTER; call.op++) {
                call.type = sums[s][0];
                call.out_type = sums[s][1];
                run_trial(place, &call, false);
                if (call.type == call.out_type)
                    run_trial(place, &call, true);
            }
        for (call.type = WK_F32; call.type <= WK_BF16; call.type++) {
            call.out_type = call.type;
            call.op = WIRE_EXCHANGE;
            run_trial(place, &call, false);
            call.op = WIRE_GATHER;
            run_trial(place, &call, false);
            run_trial(place, &call, true);
            call.op = WIRE_SPREAD;
            for (call.root = 0; call.root < wk_comm_world(place->comm); call.root++)
                run_trial(place, &call, call.root % 2);
            call.root = 0;
        }
    }
}

static int calls_alone(struct wk_comm *comm, int rank, int rc, const struct ranks *ranks)
{
    struct place place;
    (void)rank;
    (void)ranks;
    CHECK(rc == 0);
    open_place(&place, comm, false);
    CHECK(wires_hosts(place.wires, comm).inside && !wires_have(place.wires, comm));
    run_all(&place);
    CHECK(!*place.remarks);
    close_place(&place);
    return 0;
}

void every_call_in_two_levels_is_exact(void)
{
    CHECK(run_ranks(calls_alone, HOSTS_MIXED, RANKS, NULL) == 0);
    CHECK(own_wires_messages(wires) > 0);
}

/* As a strategy does: each begins once the next one has started. */
static void run_together(struct place *place, struct trial *trials)
{
    struct wire_work works[UNDER_WAY] = {0};
    for (int i = 0; i < UNDER_WAY; i++) {
        CHECK(wire_start(&place->wire, place->comm, &trials[i].call, &works[i]) == 0);
        CHECK(i == 0 || wire_begin(&works[i - 1]) == 0);
    }
    for (int i = 0; i < UNDER_WAY; i++)
        CHECK(wire_finish(&works[i]) == 0);
}

/* Twice, the second time while copies of the first may be on their way. */
static void run_twice_together(struct place *place)
{
    static const enum wire_op ops[] = {WIRE_SUM, WIRE_SCATTER, WIRE_SUM, WIRE_GATHER, WIRE_SCATTER};
    struct trial trials[2 * UNDER_WAY];
    for (int i = 0; i < 2 * UNDER_WAY; i++) {
        int kind = i % UNDER_WAY;
        trials[i] = (struct trial){.call = {.op = ops[kind],
                                            .count = 700 + 300 * (size_t)kind,
                                            .type = kind == 2 ? WK_BF16 : WK_F32,
                                            .out_type = kind % 2 || !kind ? WK_F32 : WK_BF16}};
        open_trial(place, &trials[i]);
    }
    run_together(place, trials);
    run_together(place, trials + UNDER_WAY);
    for (int i = 0; i < 2 * UNDER_WAY; i++) {
        check_trial(place, &trials[i]);
        close_trial(place, &trials[i]);
    }
}

/* One rank's piece has a value that is not finite: all ranks hear of it. */
static void check_nonfinite(struct place *place)
{
    for (int r = 0; r < RANKS; r++) {
        struct trial t = {
            .call = {.op = WIRE_SUM, .count = 1000, .type = WK_F32, .out_type = WK_F32}};
        const float infinite = INFINITY;
        int nonfinite = 0;
        open_trial(place, &t);
        t.call.ret_nonfinite = &nonfinite;
        if (wk_comm_rank(place->comm) == r)
            CHECK(queue_write(place->queue, (float *)t.at_in + 250 * r, &infinite, sizeof(infinite),
                              NULL) == 0);
        t.call.ready = event_record(place->queue);
        CHECK(wire_run(&place->wire, place->comm, &t.call, NULL) == 0);
        CHECK(nonfinite == 1);
        close_trial(place, &t);
    }
}

static void end_at_once(void)
{
    _exit(1);
}

static int calls_together(struct wk_comm *comm, int rank, int rc, const struct ranks *ranks)
{
    enum { ROUNDS = 4 };
    struct place place;
    (void)rank;
    CHECK(rc == 0);
    planted = ranks->arg ? *(enum planted_mistake *)ranks->arg : NO_MISTAKE;
    if (planted) /* a CHECK that finds it leaves work under way, which is no leak */
        (void)atexit(end_at_once);
    open_place(&place, comm, false);
    place.wire.stage_bytes = RANKS * COUNT_MAX * sizeof(double);
    for (int round = 0; round < ROUNDS; round++)
        run_twice_together(&place);
    check_nonfinite(&place);
    int stages = 0;
    for (const struct stage *s = place.wire.stages.list; s; s = s->next)
        stages++;
    CHECK(stages == UNDER_WAY);
    close_place(&place);
    return 0;
}

void calls_in_two_levels_overlap(void)
{
    CHECK(run_ranks(calls_together, HOSTS_MIXED, RANKS, NULL) == 0);
}

void mistakes_in_two_levels_are_found(void)
{
    for (enum planted_mistake mistake = NO_MISTAKE + 1; mistake < MISTAKES_IN_TWO_LEVELS;
         mistake++) {
        int found_by = run_ranks(calls_together, HOSTS_MIXED, RANKS, &mistake);
        printf("mistake %d in two levels: found by %d ranks\n", (int)mistake, found_by);
        CHECK(found_by > 0);
    }
}

/* Bytes of the vectors of all calls of an operation, at this rank. */
static uint64_t bytes_between(struct wk_comm *comm, const char *operation)
{
    struct wk_comm_statistics all;
    wk_comm_statistics(comm, &all);
    for (int i = 0; i < all.count; i++)
        if (strcmp(all.counters[i].name, operation) == 0)
            return all.counters[i].bytes;
    return 0;
}

static int count_bytes(struct wk_comm *comm, int rank, int rc, const struct ranks *ranks)
{
    enum { COUNT = 4096 };
    struct place place;
    (void)rank;
    (void)ranks;
    CHECK(rc == 0);
    open_place(&place, comm, false);
    struct wk_comm *between = wires_hosts(place.wires, comm).between;
    uint64_t before = bytes_between(comm, "all_reduce");
    struct wire_call call = {.count = COUNT};
    run_trial(&place, &call, true);
    CHECK(bytes_between(between, "all_reduce") == COUNT / LOCALS * sizeof(float));
    call.op = WIRE_SCATTER;
    run_trial(&place, &call, false);
    CHECK(bytes_between(between, "reduce_scatter") == HOSTS * COUNT * sizeof(float));
    call.op = WIRE_SPREAD;
    run_trial(&place, &call, false);
    CHECK(bytes_between(between, "broadcast") == COUNT / LOCALS * sizeof(float));
    call.op = WIRE_GATHER;
    run_trial(&place, &call, false);
    CHECK(bytes_between(between, "all_gather") == HOSTS * COUNT * sizeof(float));
    CHECK(bytes_between(comm, "all_reduce") == before);
    close_place(&place);
    return 0;
}

void a_host_sends_its_data_once(void)
{
    CHECK(run_ranks(count_bytes, HOSTS_MIXED, RANKS, NULL) == 0);
}

static int in_rank_order(struct wk_comm *comm, int rank, int rc, const struct ranks *ranks)
{
    struct place place;
    (void)rank;
    (void)ranks;
    CHECK(rc == 0);
    open_place(&place, comm, true);
    struct wk_comm *between = wires_hosts(place.wires, comm).between;
    run_trial(&place, &(struct wire_call){.count = 1000}, true);
    CHECK(bytes_between(between, "all_reduce") == 0);
    run_trial(&place, &(struct wire_call){.op = WIRE_GATHER, .count = 1000}, true);
    CHECK(bytes_between(between, "all_gather") > 0);
    CHECK(strstr(place.remarks, "data of sums passes through the hosts") &&
          strstr(place.remarks, "collectives.sums is ordered"));
    close_place(&place);
    return 0;
}

void sums_in_rank_order_pass_through_the_hosts(void)
{
    CHECK(run_ranks(in_rank_order, HOSTS_MIXED, RANKS, NULL) == 0);
}

static int through_hosts(struct wk_comm *comm, int rank, int rc, const struct ranks *ranks)
{
    struct place place;
    (void)rank;
    CHECK(rc == 0);
    open_place(&place, comm, false);
    CHECK(!wires_hosts(place.wires, comm).inside && !wires_have(place.wires, comm));
    CHECK(strstr(place.remarks, "data between the ranks passes through the hosts: ") &&
          strstr(place.remarks, ranks->arg));
    run_all(&place);
    close_place(&place);
    return 0;
}

static int on_one_host(struct wk_comm *comm, int rank, int rc, const struct ranks *ranks)
{
    struct place place;
    (void)rank;
    (void)ranks;
    CHECK(rc == 0);
    open_place(&place, comm, false);
    CHECK(wires_have(place.wires, comm) && !wires_hosts(place.wires, comm).inside);
    run_all(&place);
    close_place(&place);
    return 0;
}

void unequal_hosts_pass_data_through_them(void)
{
    static char unequal[] = "the same number of ranks", apart[] = "the ranks have a host each";
    CHECK(run_ranks(through_hosts, HOSTS_MIXED, RANKS - 1, unequal) == 0);
    CHECK(own_wires_messages(wires) == 0);
    CHECK(run_ranks(through_hosts, HOSTS_APART, 2, apart) == 0);
    CHECK(run_ranks(on_one_host, HOSTS_SHARED, 2, NULL) == 0);
}

/* Where the last rank dies in a call. */
enum phase { BEFORE_START, STARTED, BEGUN, FINISHED, PHASES };

static void die_in(enum phase phase, const struct ranks *ranks, int rank, int call)
{
    enum { DEADLY_CALL = 2 };
    if (rank == RANKS - 1 && call == DEADLY_CALL && phase == *(enum phase *)ranks->arg)
        (void)kill(getpid(), SIGKILL);
}

static int count_threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    int n = -2; /* . and .. */
    CHECK(tasks);
    while (readdir(tasks))
        n++;
    closedir(tasks);
    return n;
}

/* A thread that was joined may be listed for a moment. */
static void await_threads(int n)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    while (count_threads() > n)
        (void)nanosleep(&pause, NULL);
}

static int run_phases(struct place *place, const struct ranks *ranks, int call, struct trial *t,
                      struct wire_work *work)
{
    int rank = wk_comm_rank(place->comm);
    die_in(BEFORE_START, ranks, rank, call);
    int rc = wire_start(&place->wire, place->comm, &t->call, work);
    die_in(STARTED, ranks, rank, call);
    rc = rc ? rc : wire_begin(work);
    die_in(BEGUN, ranks, rank, call);
    rc = rc ? rc : wire_finish(work);
    die_in(FINISHED, ranks, rank, call);
    if (!rc)
        rc = queue_finish(place->queue, NULL);
    return rc ? rc : wires_failure(place->wires);
}

static int run_to_a_death(struct wk_comm *comm, int rank, int rc, const struct ranks *ranks)
{
    static const enum wire_op ops[] = {WIRE_SUM, WIRE_SCATTER, WIRE_GATHER, WIRE_SPREAD};
    struct place place;
    struct wire_work work = {0};
    (void)rank;
    CHECK(rc == 0);
    int before = count_threads();
    open_place(&place, comm, false);
    for (int call = 0; !rc; call++) {
        struct trial t = {
            .call = {.op = ops[call % 4], .count = 3000, .type = WK_F32, .out_type = WK_F32}};
        open_trial(&place, &t);
        rc = run_phases(&place, ranks, call, &t, &work);
        if (rc)
            wk_comm_abort(comm); /* as a step that is broken */
        wire_forget(&work);
        wire_drain(&place.wire);
        close_trial(&place, &t);
    }
    printf("rank %d: %d\n", rank, rc);
    CHECK(rc == WK_EPEER || rc == WK_EABORT);
    close_place(&place);
    await_threads(before);
    return 0;
}

void every_rank_hears_of_a_death_in_any_phase(void)
{
    for (enum phase phase = BEFORE_START; phase < PHASES; phase++)
        CHECK(run_ranks(run_to_a_death, HOSTS_MIXED, RANKS, &phase) == 1);
}
