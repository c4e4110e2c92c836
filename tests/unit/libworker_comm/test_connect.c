/* Who may connect, and what happens to the rest. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "libworker/comm/board.h"
#include "libworker/comm/comm.h"
#include "libworker/comm/endpoint.h"
#include "libworker/comm/group.h"
#include "libworker/comm/handshake.h"
#include "libworker/comm/operation.h"
#include "libworker/comm/state.h"
#include "libworker/comm/views.h"

enum { HANG_MS = 300000 }; /* only what hangs takes so long */

struct side {
    pthread_t thread;
    struct comm_listener *listener;
    struct comm_options options;
    struct wk_comm *comm;
    struct error err;
    int rc;
};

static const char *endpoints[2];
static const int one_host[2] = {0, 0}, two_hosts[2] = {0, 1};

static void side_init(struct side *side, int rank, uint64_t generation, const int *hosts)
{
    *side = (struct side){.options = {.rank = rank,
                                      .world = 2,
                                      .endpoints = endpoints,
                                      .hosts = hosts,
                                      .generation = generation,
                                      .connect_timeout_ms = HANG_MS,
                                      .timeout_ms = HANG_MS}};
    cr_assert_eq(comm_listen("127.0.0.1", &side->listener, NULL), 0);
    endpoints[rank] = comm_listener_endpoint(side->listener);
}

static void *connect_main(void *arg)
{
    struct side *side = arg;
    side->rc = comm_connect(side->listener, &side->options, &side->comm, &side->err);
    return NULL;
}

static void start(struct side *side)
{
    pthread_create(&side->thread, NULL, connect_main, side);
}

static void finish(struct side *side)
{
    pthread_join(side->thread, NULL);
}

static void side_fini(struct side *side)
{
    wk_comm_close(side->comm);
    comm_listener_close(side->listener);
}

static void expect_sum(struct side *a, struct side *b)
{
    struct wk_work *work;
    int32_t x = 3, y = 4;
    cr_assert_eq(a->rc, 0, "%s", a->err.text);
    cr_assert_eq(b->rc, 0, "%s", b->err.text);
    cr_assert_eq(wk_all_reduce(a->comm, &x, 1, WK_I32, WK_SUM, &work), 0);
    cr_assert_eq(wk_all_reduce(b->comm, &y, 1, WK_I32, WK_SUM, NULL), 0);
    cr_assert_eq(wk_wait(work), 0);
    cr_assert(x == 7 && y == 7);
}

Test(connect, an_old_generation_is_refused_and_the_new_one_goes_on)
{
    for (int far = 0; far < 2; far++) {
        struct side a, old, now;
        side_init(&a, 0, 9, far ? two_hosts : one_host);
        side_init(&now, 1, 9, far ? two_hosts : one_host);
        old = now;
        old.options.generation = 8;
        start(&a);
        start(&old);
        finish(&old);
        cr_assert_eq(old.rc, WK_EABORT, "%s", old.err.text);
        cr_assert(strstr(old.err.text, "it is in generation 9, so 8 is over"), "%s", old.err.text);
        start(&now);
        finish(&now);
        finish(&a);
        expect_sum(&a, &now);
        side_fini(&a);
        side_fini(&now);
    }
}

Test(connect, who_is_ahead_waits_for_the_other_to_follow)
{
    struct side a, b;
    side_init(&a, 0, 4, one_host);
    side_init(&b, 1, 5, one_host);
    a.options.connect_timeout_ms = 200;
    start(&b);
    start(&a);
    finish(&a);
    cr_assert_eq(a.rc, WK_ETIMEOUT);
    cr_assert(strstr(a.err.text, "rank 1 did not connect to rank 0"), "%s", a.err.text);
    a.options.generation = 5;
    a.options.connect_timeout_ms = HANG_MS;
    start(&a);
    finish(&a);
    finish(&b);
    expect_sum(&a, &b);
    side_fini(&a);
    side_fini(&b);
}

struct watcher {
    _Atomic int64_t waiting_us;
    struct wk_comm_status last; /* the connecting thread's until it is joined */
};

static void note_waits(void *arg, const struct wk_comm_status *status)
{
    struct watcher *watcher = arg;
    watcher->last = *status;
    atomic_store(&watcher->waiting_us, status->waiting_us);
}

/* Whoever dials and whoever accepts; over shared memory and TCP. */
Test(connect, who_is_missing_is_told_meanwhile)
{
    for (int i = 0; i < 4; i++) {
        struct side early, late;
        struct watcher watcher = {.waiting_us = 0};
        int rank = i % 2;
        const int *hosts = i < 2 ? one_host : two_hosts;
        side_init(rank ? &late : &early, 0, 3, hosts);
        side_init(rank ? &early : &late, 1, 3, hosts);
        early.options.waits = note_waits;
        early.options.waits_arg = &watcher;
        start(&early);
        while (atomic_load(&watcher.waiting_us) < 60000)
            usleep(1000);
        start(&late);
        finish(&early);
        finish(&late);
        expect_sum(&early, &late);
        cr_assert_str_eq(watcher.last.name, "world");
        cr_assert_str_eq(watcher.last.operation, "connect");
        cr_assert(watcher.last.running && watcher.last.sequence == 0);
        cr_assert_eq(watcher.last.waiting_count, 1);
        cr_assert_eq(watcher.last.waiting[0], 1 - rank);
        side_fini(&early);
        side_fini(&late);
    }
}

static bool is_set(void *arg)
{
    return atomic_load((atomic_bool *)arg);
}

/* Rank 0 goes on waiting for one that has it. */
Test(connect, another_secret_is_refused)
{
    for (int far = 0; far < 2; far++) {
        struct side a, b;
        atomic_bool refused = false;
        side_init(&a, 0, 1, far ? two_hosts : one_host);
        side_init(&b, 1, 1, far ? two_hosts : one_host);
        a.options.cancelled = is_set;
        a.options.cancelled_arg = &refused;
        b.options.secret[31] = 1;
        start(&a);
        start(&b);
        finish(&b);
        atomic_store(&refused, true);
        finish(&a);
        cr_assert_eq(b.rc, WK_EUNAVAILABLE, "%s", b.err.text);
        cr_assert_eq(a.rc, WK_EABORT, "%s", a.err.text);
        side_fini(&a);
        side_fini(&b);
    }
}

/* Connects and says `bytes` of `data`; stays connected. */
static int stranger(const char *endpoint, const void *data, size_t bytes)
{
    struct endpoint e;
    struct sockaddr_in address = {.sin_family = AF_INET};
    cr_assert_eq(endpoint_parse(endpoint, &e, NULL), 0);
    address.sin_port = htons((uint16_t)strtol(e.port, NULL, 10));
    inet_pton(AF_INET, e.host, &address.sin_addr);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert_eq(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    if (bytes > 0)
        cr_assert_eq(write(fd, data, bytes), (ssize_t)bytes);
    return fd;
}

Test(connect, strangers_do_not_hold_it_up)
{
    struct side a, b;
    char garbage[500];
    int fds[80];
    memset(garbage, 'x', sizeof(garbage));
    side_init(&a, 0, 1, two_hosts);
    side_init(&b, 1, 1, two_hosts);
    for (int i = 0; i < 80; i++)
        fds[i] = stranger(endpoints[0], garbage, i % 2 ? sizeof(garbage) : (size_t)i % 7);
    start(&a);
    start(&b);
    finish(&a);
    finish(&b);
    expect_sum(&a, &b);
    for (int i = 0; i < 80; i++)
        close(fds[i]);
    side_fini(&a);
    side_fini(&b);
}

/* As many as wait at a port at most. If each kept its place as long as it may, the rank that comes
 * after them would be served half a minute later. */
Test(connect, more_silent_strangers_than_places_do_not_hold_it_up)
{
    enum { STRANGERS = 1000, PATIENCE_MS = 15000 };
    struct rlimit files = {STRANGERS + 500, STRANGERS + 500};
    struct side a, b;
    static int fds[STRANGERS];
    if (setrlimit(RLIMIT_NOFILE, &files) != 0)
        cr_skip_test("not that many descriptors");
    side_init(&a, 0, 1, two_hosts);
    side_init(&b, 1, 1, two_hosts);
    b.options.connect_timeout_ms = PATIENCE_MS;
    for (int i = 0; i < STRANGERS; i++)
        fds[i] = stranger(endpoints[0], "x", (size_t)i % 2);
    start(&a);
    start(&b);
    finish(&b);
    if (b.rc != 0) /* a would wait for longer */
        cr_assert_fail("%s", b.err.text);
    finish(&a);
    expect_sum(&a, &b);
    for (int i = 0; i < STRANGERS; i++)
        close(fds[i]);
    side_fini(&a);
    side_fini(&b);
}

/* A rank 1 that has the secret and ends behind its welcome. */
static void welcomed_and_gone(const struct side *a)
{
    struct endpoint e;
    struct challenge challenge;
    struct welcome welcome;
    struct hello hello = {.to = 0, .channel = CHANNEL_CONTROL};
    struct credentials self = {a->options.secret, a->options.generation, 1, 2};
    int fd;
    cr_assert_eq(endpoint_parse(endpoints[0], &e, NULL), 0);
    cr_assert_eq(endpoint_dial(&e, true, &fd), 0);
    fcntl(fd, F_SETFL, 0);
    cr_assert_eq(recv(fd, &challenge, sizeof(challenge), MSG_WAITALL), (ssize_t)sizeof(challenge));
    hello_make(&hello, &self, &challenge);
    cr_assert_eq(send(fd, &hello, sizeof(hello), 0), (ssize_t)sizeof(hello));
    cr_assert_eq(recv(fd, &welcome, sizeof(welcome), MSG_WAITALL), (ssize_t)sizeof(welcome));
    cr_assert_eq(welcome_check(&welcome, &self, &hello), HANDSHAKE_WELCOME);
    close(fd);
}

/* Its generation broke, which the next one mends; any other code would end the program. */
Test(connect, who_dies_before_its_memory_is_handed_over_is_a_lost_peer)
{
    struct side a;
    side_init(&a, 0, 1, one_host);
    start(&a);
    welcomed_and_gone(&a);
    finish(&a);
    cr_assert_eq(a.rc, WK_EPEER, "%d: %s", a.rc, a.err.text);
    cr_assert(strstr(a.err.text, "rank 1 went away while ranks were connecting"), "%s", a.err.text);
    side_fini(&a);
}

/* Longer than an unreachable host is waited for: what the late one has not read fills its window.
 */
Test(connect, a_rank_that_is_late_may_leave_data_waiting)
{
    enum { COUNT = 4 << 20, LATE_S = 12 };
    struct side a, b;
    struct wk_work *work;
    int32_t *x = calloc(COUNT, sizeof(*x)), *y = calloc(COUNT, sizeof(*y));
    side_init(&a, 0, 1, two_hosts);
    side_init(&b, 1, 1, two_hosts);
    start(&a);
    start(&b);
    finish(&a);
    finish(&b);
    x[COUNT - 1] = 3;
    y[COUNT - 1] = 4;
    cr_assert_eq(wk_all_reduce(a.comm, x, COUNT, WK_I32, WK_SUM, &work), 0);
    sleep(LATE_S);
    cr_assert_eq(wk_all_reduce(b.comm, y, COUNT, WK_I32, WK_SUM, NULL), 0, "%s",
                 wk_comm_error(b.comm));
    cr_assert_eq(wk_wait(work), 0, "%s", wk_comm_error(a.comm));
    cr_assert(x[COUNT - 1] == 7 && y[COUNT - 1] == 7);
    free(x);
    free(y);
    side_fini(&a);
    side_fini(&b);
}

/* A rank whose buffer ends behind its arena, as only a broken one says. */
Test(connect, a_buffer_beyond_its_arena_is_not_touched)
{
    enum { BYTES = 1 << 20, COUNT = 4096 };
    struct side a, b;
    struct wk_arena *ours, *theirs;
    struct wk_work *work;
    struct located located;
    side_init(&a, 0, 1, one_host);
    side_init(&b, 1, 1, one_host);
    start(&a);
    start(&b);
    finish(&a);
    finish(&b);
    cr_assert(wk_arena_new(BYTES, &ours) == 0 && wk_arena_new(BYTES, &theirs) == 0);
    cr_assert(wk_comm_register(a.comm, ours) == 0 && wk_comm_register(b.comm, theirs) == 0);
    cr_assert_eq(wk_all_reduce(a.comm, wk_arena_data(ours), COUNT, WK_I32, WK_SUM, &work), 0);
    struct request rq = {.kind = KIND_ALL_REDUCE, .dtype = WK_I32, .count = COUNT};
    rq.in = rq.out = wk_arena_data(theirs);
    operation_header(b.comm, &rq);
    cr_assert_eq(views_locate(b.comm, &rq, &located), 0);
    located.in_offset = located.out_offset = BYTES - 64;
    board_post(b.comm, &located, sizeof(located));
    cr_assert_eq(wk_wait(work), WK_EIO, "%s", wk_comm_error(a.comm));
    cr_assert(strstr(wk_comm_error(a.comm), "shared memory of rank 1 cannot be mapped"));
    wk_arena_free(ours);
    wk_arena_free(theirs);
    side_fini(&a);
    side_fini(&b);
}

/* Rank 1 says where it listens for a group, and does not come. */
static void *say_and_stay_away(void *arg)
{
    struct side *b = arg;
    struct group_seat own = {.rank = 1}, all[2];
    snprintf(own.endpoint, sizeof(own.endpoint), "tcp://127.0.0.1:9#nobody");
    cr_assert_eq(wk_all_gather(b->comm, &own, all, sizeof(own), WK_U8, NULL), 0);
    return NULL;
}

static void *split_main(void *arg)
{
    struct side *a = arg;
    struct wk_split split = {.name = "half"};
    struct wk_comm *group;
    a->rc = wk_comm_split(a->comm, &split, &group);
    return NULL;
}

Test(connect, who_is_missing_in_a_group_is_told_meanwhile)
{
    struct side a, b;
    struct wk_comm_status status = {0};
    side_init(&a, 0, 1, one_host);
    side_init(&b, 1, 1, one_host);
    start(&a);
    start(&b);
    finish(&a);
    finish(&b);
    pthread_create(&a.thread, NULL, split_main, &a);
    say_and_stay_away(&b);
    while (!status.waiting_us) {
        usleep(1000);
        comm_longest_wait(a.comm, &status);
    }
    cr_assert_str_eq(status.name, "world/half");
    cr_assert_str_eq(status.operation, "connect");
    cr_assert(status.running && status.waiting_count == 1 && status.waiting[0] == 1);
    wk_comm_abort(b.comm);
    finish(&a);
    cr_assert_eq(a.rc, WK_EABORT, "%s", wk_comm_error(a.comm));
    comm_longest_wait(a.comm, &status);
    cr_assert_eq(status.waiting_us, 0);
    side_fini(&a);
    side_fini(&b);
}

static atomic_int polls;

/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name) */
int poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
    static int (*real)(struct pollfd *, nfds_t, int);
    atomic_fetch_add(&polls, 1);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "poll");
    return real(fds, count, timeout_ms);
}

/* A connection that there is no descriptor for stays at the door. */
Test(connect, without_descriptors_it_waits_at_rest_and_says_so)
{
    struct side a;
    struct rlimit files;
    side_init(&a, 0, 1, two_hosts);
    endpoints[1] = endpoints[0];
    a.options.connect_timeout_ms = 500;
    int fd = stranger(endpoints[0], NULL, 0);
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &files), 0);
    files.rlim_cur = (rlim_t)fd + 64;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &files), 0);
    int last = fd;
    for (int more = fd; more >= 0; more = dup(fd))
        last = more;
    close(last); /* for the bell and the epoll */
    close(last - 1);
    int before = atomic_load(&polls);
    connect_main(&a);
    int looks = atomic_load(&polls) - before;
    cr_assert_eq(a.rc, WK_ETIMEOUT, "%s", a.err.text);
    cr_assert(looks > 0 && looks < 100, "%d looks in half a second", looks);
    cr_assert(strstr(a.err.text, "no more file descriptors"), "%s", a.err.text);
    side_fini(&a);
}

static bool always(void *arg)
{
    return arg != NULL;
}

Test(connect, can_be_cancelled)
{
    struct side a;
    side_init(&a, 0, 1, one_host);
    endpoints[1] = endpoints[0];
    a.options.cancelled = always;
    a.options.cancelled_arg = &a;
    connect_main(&a);
    cr_assert_eq(a.rc, WK_EABORT);
    side_fini(&a);
}

Test(connect, bad_options_are_refused)
{
    struct comm_options bad[] = {
        {.rank = 0, .world = 0},  {.rank = 2, .world = 2},
        {.rank = -1, .world = 1}, {.rank = 0, .world = COMM_WORLD_MAX + 1},
        {.rank = 0, .world = 2},
    };
    struct wk_comm *comm = NULL;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        cr_assert_eq(comm_connect(NULL, &bad[i], &comm, NULL), WK_EINVAL);
    cr_assert_null(comm);
    struct comm_listener *listener = NULL;
    cr_assert_eq(comm_listen("0.0.0.0", &listener, NULL), WK_EINVAL);
    cr_assert_null(listener);
}

Test(connect, a_world_of_one_needs_nobody)
{
    struct comm_options options = {.rank = 0, .world = 1};
    struct wk_comm *comm;
    float in[3] = {1, 2, 3}, out[3] = {0};
    int rank;
    struct wk_work *work;
    cr_assert_eq(comm_connect(NULL, &options, &comm, NULL), 0);
    cr_assert_eq(wk_all_reduce(comm, in, 3, WK_F32, WK_MEAN, &work), 0);
    cr_assert_eq(wk_wait(work), 0);
    cr_assert_eq(wk_all_gather(comm, in, out, 3, WK_F32, NULL), 0);
    cr_assert(out[2] == 3 && in[0] == 1);
    cr_assert_eq(wk_comm_lost(comm, &rank, 1), 0);
    cr_assert_eq(wk_broadcast(comm, in, 3, WK_F32, 1, NULL), WK_EINVAL);
    cr_assert_str_eq(wk_comm_error(comm), "root 1 is not one of 1 ranks");
    cr_assert_eq(wk_all_reduce(comm, NULL, 3, WK_F32, WK_SUM, NULL), WK_EINVAL);
    cr_assert_eq(wk_all_reduce(comm, in, SIZE_MAX / 2, WK_F64, WK_SUM, NULL), WK_EINVAL);
    cr_assert_eq(wk_all_reduce(comm, in, 3, (enum wk_dtype)99, WK_SUM, NULL), WK_EINVAL);
    wk_comm_abort(comm);
    cr_assert_eq(wk_barrier(comm, NULL), WK_EABORT);
    wk_comm_close(comm);
    wk_comm_close(NULL);
}

Test(endpoint, parses_what_listeners_say_and_refuses_the_rest)
{
    struct endpoint e;
    cr_assert_eq(endpoint_parse("tcp://[::1]:80#muster-x", &e, NULL), 0);
    cr_assert_str_eq(e.host, "::1");
    cr_assert_str_eq(e.port, "80");
    cr_assert_str_eq(e.name, "muster-x");
    static const char *const bad[] = {"",         "tcp://",   "tcp://h",    "h:1",
                                      "tcp://:1", "tcp://h:", "tcp://h:1#", "tcp://h:123456789#n"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        cr_assert_eq(endpoint_parse(bad[i], &e, NULL), WK_EINVAL, "%s", bad[i]);
}

Test(handshake, every_changed_byte_is_noticed)
{
    uint8_t secret[SHA256_BYTES] = {1}, nonce[HANDSHAKE_NONCE_BYTES] = {2};
    struct credentials acceptor = {secret, 7, 0, 2, 1}, connector = {secret, 7, 1, 2, 3};
    struct challenge challenge;
    struct hello hello = {.to = 0, .channel = CHANNEL_DATA}, changed;
    struct welcome welcome, other;
    challenge_make(&challenge, nonce);
    hello_make(&hello, &connector, &challenge);
    cr_assert_eq(hello_check(&hello, &acceptor, &challenge), HANDSHAKE_WELCOME);
    for (size_t i = 0; i < sizeof(hello); i++) {
        changed = hello;
        ((uint8_t *)&changed)[i] ^= 1;
        cr_assert_neq(hello_check(&changed, &acceptor, &challenge), HANDSHAKE_WELCOME);
    }
    welcome_make(&welcome, &acceptor, &hello, HANDSHAKE_WELCOME);
    cr_assert_eq(welcome_check(&welcome, &connector, &hello), HANDSHAKE_WELCOME);
    for (size_t i = 0; i < sizeof(welcome); i++) {
        other = welcome;
        ((uint8_t *)&other)[i] ^= 1;
        cr_assert_neq(welcome_check(&other, &connector, &hello), HANDSHAKE_WELCOME);
    }
    nonce[0]++;
    challenge_make(&challenge, nonce);
    cr_assert_eq(hello_check(&hello, &acceptor, &challenge), HANDSHAKE_REFUSED, "a replay");
}

Test(connect, rows_without_memory_are_refused)
{
    struct comm_options options = {.rank = 0, .world = 1};
    const size_t one = 1, none = 0;
    float value = 3, sum = 0;
    struct wk_comm *comm;
    cr_assert_eq(comm_connect(NULL, &options, &comm, NULL), 0);
    struct wk_rows rows = {&value, &one, &none, &sum, &one, &none, WK_F32};
    struct wk_rows no_in = rows, no_out = rows, empty = {NULL, &none, &none, NULL, &none, &none};
    no_in.in = NULL;
    no_out.out = NULL;
    cr_assert_eq(wk_all_to_all_v(comm, &no_in, NULL), WK_EINVAL);
    cr_assert_eq(wk_all_gather_v(comm, &no_in, NULL), WK_EINVAL);
    cr_assert_eq(wk_reduce_scatter_v(comm, &no_in, WK_SUM, NULL), WK_EINVAL);
    cr_assert_eq(wk_all_to_all_v(comm, &no_out, NULL), WK_EINVAL);
    cr_assert_eq(wk_all_gather_v(comm, &no_out, NULL), WK_EINVAL);
    cr_assert_eq(wk_reduce_scatter_v(comm, &no_out, WK_SUM, NULL), WK_EINVAL);
    cr_assert_eq(wk_all_to_all_v(comm, &empty, NULL), 0);
    cr_assert(wk_reduce_scatter_v(comm, &rows, WK_SUM, NULL) == 0 && sum == 3);
    wk_comm_close(comm);
}
