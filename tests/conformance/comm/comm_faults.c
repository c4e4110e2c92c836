/* Every wait ends: deaths, aborts, timeouts, mismatches and strangers, over shared memory, TCP and
 * both. Times are printed, not judged: what is not noticed by itself ends with WK_ETIMEOUT. */
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/conformance/comm/ranks.h"

enum { PATIENCE_MS = 60000, SLOWER = 1000 };

struct shared {
    _Atomic int ready;
    _Atomic int go;
    _Atomic int waits; /* rank 0, and says for whom */
    _Atomic int aborted;
    _Atomic int noted;
    _Atomic long ahead_ms; /* of a slow clock */
    int code[RANKS_MAX];
    int lost[RANKS_MAX];
    int lost_count[RANKS_MAX];
    double at_ms[RANKS_MAX];
    char text[RANKS_MAX][512];
};

static int failures;

/* --- a clock that runs so slowly that nothing is late until the test puts it forward */

static struct shared *slow; /* NULL: the clock is the machine's */
static struct timespec slow_since;

static int64_t ns_of(const struct timespec *time)
{
    return (int64_t)time->tv_sec * 1000000000 + time->tv_nsec;
}

int __real_clock_gettime(clockid_t id, struct timespec *ret);
int __wrap_clock_gettime(clockid_t id, struct timespec *ret);
int __wrap_clock_gettime(clockid_t id, struct timespec *ret)
{
    int rc = __real_clock_gettime(id, ret);
    if (rc != 0 || id != CLOCK_MONOTONIC || !slow)
        return rc;
    int64_t since_ns = ns_of(&slow_since), passed_ns = (ns_of(ret) - since_ns) / SLOWER;
    int64_t now_ns = since_ns + passed_ns + (int64_t)slow->ahead_ms * 1000000;
    *ret = (struct timespec){.tv_sec = now_ns / 1000000000, .tv_nsec = now_ns % 1000000000};
    return 0;
}

static void clock_slow(struct shared *s)
{
    __real_clock_gettime(CLOCK_MONOTONIC, &slow_since);
    slow = s;
}

static void clock_again(void)
{
    slow = NULL;
}

static void expect(int ok, const char *what, enum ranks_hosts hosts, const char *detail)
{
    if (!ok) {
        failures++;
        printf("FAILED %s (%s): %s\n", what, ranks_hosts_name(hosts), detail);
    }
}

static void nap_ms(int ms)
{
    usleep((useconds_t)ms * 1000);
}

static void note(struct shared *s, struct wk_comm *comm, int rank, int code)
{
    s->at_ms[rank] = ranks_now_ms();
    s->code[rank] = code;
    snprintf(s->text[rank], sizeof(s->text[rank]), "%s", wk_comm_error(comm));
    s->lost[rank] = -1;
    s->lost_count[rank] = wk_comm_lost(comm, &s->lost[rank], 1);
    s->noted++;
}

struct aborter {
    struct wk_comm *comm;
    struct shared *shared;
};

static void *abort_soon(void *arg)
{
    struct aborter *aborter = arg;
    nap_ms(50);
    wk_comm_abort(aborter->comm);
    aborter->shared->aborted = 1;
    return NULL;
}

static struct ranks a_world(struct shared *s, enum ranks_hosts hosts, int world)
{
    memset(s, 0, sizeof(*s));
    return (struct ranks){.kind = RANKS_PROCESSES,
                          .hosts = hosts,
                          .world = world,
                          .timeout_ms = PATIENCE_MS,
                          .generation = 5,
                          .wrong_secret_of = -1,
                          .arg = s};
}

/* --- a rank is killed while the others wait: for it, or for yet another one */

struct watcher {
    struct wk_comm *comm;
    struct shared *s;
};

static void *watch_for_a_wait(void *arg)
{
    struct watcher *watcher = arg;
    struct wk_comm_status status = {0};
    while (!status.waiting_count) {
        nap_ms(1);
        wk_comm_status(watcher->comm, &status);
    }
    watcher->s->waits = 1;
    return NULL;
}

static int wait_to_be_killed(struct wk_comm *comm, int rank, int rc, const struct ranks *ranks)
{
    struct shared *s = ranks->arg;
    struct watcher watcher = {comm, s};
    pthread_t thread;
    float data[1000] = {0};
    if (rc != 0)
        return 1;
    wk_barrier(comm, NULL);
    s->ready++;
    if (rank == 0)
        pthread_create(&thread, NULL, watch_for_a_wait, &watcher);
    if (rank == ranks->world - 1)
        for (;;)
            pause();
    while (rank == 1 && !s->go)
        nap_ms(1);
    note(s, comm, rank, wk_all_reduce(comm, data, 1000, WK_F32, WK_SUM, NULL));
    if (rank == 0)
        pthread_join(thread, NULL);
    return 0;
}

static double worst_after(const struct shared *s, int world, double since_ms)
{
    double worst = 0;
    for (int r = 0; r < world; r++)
        if (s->at_ms[r] - since_ms > worst)
            worst = s->at_ms[r] - since_ms;
    return worst;
}

static void expect_survivors(const struct shared *s, const struct ranks *ranks, const char *what)
{
    for (int r = 0; r < ranks->world - 1; r++) {
        expect(s->code[r] == WK_EPEER, what, ranks->hosts, s->text[r]);
        expect(s->lost_count[r] == 1 && s->lost[r] == ranks->world - 1, "lost rank", ranks->hosts,
               s->text[r]);
    }
}

static void killed_while_awaited(struct shared *s, enum ranks_hosts hosts, int world)
{
    struct ranks ranks = a_world(s, hosts, world);
    struct ranks_started started;
    ranks_start(&ranks, wait_to_be_killed, &started);
    while (s->ready < world || !s->waits)
        nap_ms(1);
    double killed_ms = ranks_now_ms();
    kill(started.pids[world - 1], SIGKILL);
    nap_ms(30);
    s->go = 1;
    ranks_join(&started);
    expect_survivors(s, &ranks, "killed while awaited");
    double rank0_ms = s->at_ms[0] - killed_ms;
    expect(strstr(s->text[0], "world: rank ") &&
               strstr(s->text[0], "during all_reduce #1 (sum of 1000 f32, 4000 bytes)") &&
               strstr(s->text[0], "; missing: rank"),
           "a death says what was going on", hosts, s->text[0]);
    printf("%-5s world %d: rank 0 saw the death after %.2f ms, all after %.2f ms\n",
           ranks_hosts_name(hosts), world, rank0_ms, worst_after(s, world, killed_ms));
}

/* --- a rank is killed somewhere within large transfers */

static int keep_reducing(struct wk_comm *comm, int rank, int rc, const struct ranks *ranks)
{
    struct shared *s = ranks->arg;
    enum { COUNT = 1 << 20 };
    float *data = calloc(COUNT, sizeof(*data));
    s->ready++;
    while (rc == 0)
        rc = wk_all_reduce(comm, data, COUNT, WK_F32, WK_SUM, NULL);
    free(data);
    if (!comm)
        return 1;
    note(s, comm, rank, rc);
    return 0;
}

static void killed_while_moving(struct shared *s, enum ranks_hosts hosts, int world, int after_ms)
{
    struct ranks ranks = a_world(s, hosts, world);
    struct ranks_started started;
    ranks_start(&ranks, keep_reducing, &started);
    while (s->ready < world)
        nap_ms(1);
    nap_ms(after_ms);
    double killed_ms = ranks_now_ms();
    kill(started.pids[world - 1], SIGKILL);
    ranks_join(&started);
    expect_survivors(s, &ranks, "killed while moving");
    printf("%-5s world %d: all saw the death in mid-transfer after %.2f ms\n",
           ranks_hosts_name(hosts), world, worst_after(s, world, killed_ms));
}

/* --- a killed rank left a child behind that holds its sockets open */

static int leave_a_child(struct wk_comm *comm, int rank, int rc, const struct ranks *ranks)
{
    struct shared *s = ranks->arg;
    if (rc != 0)
        return 1;
    if (rank == 1) {
        pid_t child = fork();
        if (child == 0) {
            for (int i = 0; i < PATIENCE_MS / 10 && !s->go; i++)
                nap_ms(10);
            _exit(0);
        }
        s->ready++;
        for (;;)
            pause();
    }
    note(s, comm, rank, wk_barrier(comm, NULL));
    s->go = 1;
    return 0;
}

static void killed_with_a_child(struct shared *s)
{
    struct ranks ranks = a_world(s, HOSTS_SHARED, 2);
    struct ranks_started started;
    ranks_start(&ranks, leave_a_child, &started);
    while (s->ready < 1)
        nap_ms(1);
    nap_ms(20);
    kill(started.pids[1], SIGKILL);
    ranks_join(&started);
    expect_survivors(s, &ranks, "killed with a child");
}

/* --- abort, timeout, mismatch, leaving: as processes or threads */

static int abort_in_rank_0(struct wk_comm *comm, int rank, int rc, const struct ranks *ranks)
{
    struct shared *s = ranks->arg;
    struct aborter aborter = {comm, s};
    pthread_t thread;
    struct wk_work *work = NULL;
    char byte = 0;
    if (rc != 0)
        return 1;
    wk_barrier(comm, NULL);
    if (rank == 0)
        pthread_create(&thread, NULL, abort_soon, &aborter);
    /* It comes too late to be waited for, but must hear of it. */
    for (int i = 0; rank == 1 && i < PATIENCE_MS && !s->aborted; i++)
        nap_ms(1);
    int code = wk_all_reduce(comm, &byte, 1, WK_U8, WK_MAX, rank == 2 ? &work : NULL);
    if (code == 0)
        code = wk_wait(work);
    note(s, comm, rank, code);
    if (rank == 0)
        pthread_join(thread, NULL);
    return wk_barrier(comm, NULL) != WK_EABORT;
}

static void aborted(struct shared *s, enum ranks_kind kind, enum ranks_hosts hosts)
{
    struct ranks ranks = a_world(s, hosts, 3);
    ranks.kind = kind;
    expect(ranks_run(&ranks, abort_in_rank_0) == 0, "later calls fail too", hosts, s->text[0]);
    for (int r = 0; r < 3; r++)
        expect(s->code[r] == WK_EABORT && s->lost_count[r] == 0, "abort", hosts, s->text[r]);
}

/* Until rank 2 is all that is waited for: then the time of the others is over. */
static void *watch_for_rank_2(void *arg)
{
    struct watcher *watcher = arg;
    struct shared *s = watcher->s;
    struct wk_comm_status status = {0};
    while (status.waiting_count != 1 || status.waiting[0] != 2) {
        nap_ms(1);
        wk_comm_status(watcher->comm, &status);
    }
    s->waits++;
    return NULL;
}

static int rank_2_is_late(struct wk_comm *comm, int rank, int rc, const struct ranks *ranks)
{
    struct shared *s = ranks->arg;
    struct watcher watcher = {comm, s};
    pthread_t thread;
    double data[8] = {0};
    if (rc != 0)
        return 1;
    wk_barrier(comm, NULL);
    if (rank != 2)
        pthread_create(&thread, NULL, watch_for_rank_2, &watcher);
    while (rank == 2 && s->waits < 2)
        nap_ms(1);
    if (rank == 2)
        s->ahead_ms = ranks->timeout_ms * 2L;
    while (rank == 2 && s->noted < 2)
        nap_ms(1);
    note(s, comm, rank, wk_broadcast(comm, data, 8, WK_F64, 1, NULL));
    if (rank != 2)
        pthread_join(thread, NULL);
    return 0;
}

static void timed_out(struct shared *s, enum ranks_kind kind, enum ranks_hosts hosts)
{
    struct ranks ranks = a_world(s, hosts, 3);
    ranks.kind = kind;
    ranks.timeout_ms = 200;
    clock_slow(s);
    expect(ranks_run(&ranks, rank_2_is_late) == 0, "timeout", hosts, "");
    clock_again();
    for (int r = 0; r < 3; r++) {
        expect(s->code[r] == WK_ETIMEOUT, "timeout", hosts, s->text[r]);
        expect(strstr(s->text[r],
                      "world: broadcast #1 (8 f64 from rank 1, 64 bytes): rank 2 did not arrive") !=
                   NULL,
               "timeout names the missing", hosts, s->text[r]);
    }
}

enum { DIFFERENT_WAYS = 5 };

static int call_differently(struct wk_comm *comm, int rank, int rc, const struct ranks *ranks)
{
    struct shared *s = ranks->arg;
    float data[12] = {0};
    if (rc != 0)
        return 1;
    int odd = rank == 1;
    switch ((int)s->go) {
    case 0:
        rc = wk_all_reduce(comm, data, odd ? 11 : 12, WK_F32, WK_SUM, NULL);
        break;
    case 1:
        rc = wk_all_reduce(comm, data, 3, odd ? WK_F64 : WK_F32, WK_SUM, NULL);
        break;
    case 2:
        rc = wk_all_reduce(comm, data, 3, WK_F32, odd ? WK_MEAN : WK_SUM, NULL);
        break;
    case 3:
        rc = wk_broadcast(comm, data, 3, WK_F32, odd, NULL);
        break;
    case DIFFERENT_WAYS:
        rc = wk_all_reduce(comm, data, 12, WK_F32, WK_SUM, NULL);
        break;
    default:
        rc = odd ? wk_barrier(comm, NULL) : wk_broadcast(comm, data, 3, WK_F32, 0, NULL);
        break;
    }
    note(s, comm, rank, rc);
    return 0;
}

static void mismatched(struct shared *s, enum ranks_kind kind, enum ranks_hosts hosts)
{
    static const char *const both[][2] = {
        {"all_reduce #0 (sum of 12 f32, 48 bytes)", "all_reduce #0 (sum of 11 f32, 44 bytes)"},
        {"all_reduce #0 (sum of 3 f32, 12 bytes)", "all_reduce #0 (sum of 3 f64, 24 bytes)"},
        {"all_reduce #0 (sum of 3 f32, 12 bytes)", "all_reduce #0 (mean of 3 f32, 12 bytes)"},
        {"broadcast #0 (3 f32 from rank 0, 12 bytes)",
         "broadcast #0 (3 f32 from rank 1, 12 bytes)"},
        {"broadcast #0 (3 f32 from rank 0, 12 bytes)", "barrier #0"},
        {"all_reduce #0 (sum of 12 f32, 48 bytes, forced sliced)",
         "all_reduce #0 (sum of 12 f32, 48 bytes, forced direct)"},
    };
    for (int i = 0; i <= DIFFERENT_WAYS; i++) {
        struct ranks ranks = a_world(s, hosts, 3);
        ranks.kind = kind;
        ranks.ways = i == DIFFERENT_WAYS ? "sliced" : NULL;
        ranks.other_ways = i == DIFFERENT_WAYS ? "direct:8K sliced" : NULL;
        s->go = i;
        expect(ranks_run(&ranks, call_differently) == 0, "mismatch", hosts, "");
        for (int r = 0; r < 3; r++) {
            expect(s->code[r] == WK_EMISMATCH, "mismatch", hosts, s->text[r]);
            expect(strstr(s->text[r], both[i][0]) && strstr(s->text[r], both[i][1]),
                   "mismatch shows both sides", hosts, s->text[r]);
        }
    }
}

/* Rank 1 calls what goes over links; on one host the others meet in shared memory. */
static int call_elsewhere(struct wk_comm *comm, int rank, int rc, const struct ranks *ranks)
{
    enum { MANY = 1 << 20 };
    static float many[RANKS_MAX][MANY];
    static const size_t one = 1, ones[] = {1, 1, 1}, places[] = {0, 1, 2};
    struct shared *s = ranks->arg;
    float *data = many[rank];
    struct wk_rows rows = {data, &one, &places[0], data + 1, ones, places, WK_F32};
    if (rc != 0)
        return 1;
    if (rank != 1)
        rc = wk_all_reduce(comm, data, 12, WK_F32, WK_SUM, NULL);
    else if (s->go == 0)
        rc = wk_all_gather_v(comm, &rows, NULL);
    else if (s->go == 1)
        rc = wk_recv(comm, data, 12, WK_F32, 0, NULL);
    else
        rc = wk_send(comm, data, MANY, WK_F32, 0, NULL);
    note(s, comm, rank, rc);
    return 0;
}

static void mismatched_elsewhere(struct shared *s, enum ranks_kind kind, enum ranks_hosts hosts)
{
    static const char *const other[] = {"all_gather_v #0", "#0 (", "send #0"};
    for (int i = 0; i < 3; i++) {
        struct ranks ranks = a_world(s, hosts, 3);
        ranks.kind = kind;
        s->go = i;
        expect(ranks_run(&ranks, call_elsewhere) == 0, "mismatch elsewhere", hosts, "");
        for (int r = 0; r < 3; r++) {
            expect(s->code[r] == WK_EMISMATCH, "mismatch elsewhere", hosts, s->text[r]);
            expect(strstr(s->text[r], "all_reduce #0 (sum of 12 f32") &&
                       strstr(s->text[r], other[i]),
                   "mismatch elsewhere shows both sides", hosts, s->text[r]);
        }
    }
}

static int rank_1_leaves(struct wk_comm *comm, int rank, int rc, const struct ranks *ranks)
{
    struct shared *s = ranks->arg;
    enum { COUNT = 500000 };
    static float data[3][COUNT];
    if (rc != 0)
        return 1;
    rc = wk_all_reduce(comm, data[rank], COUNT, WK_F32, WK_SUM, NULL);
    if (rc == 0 && rank != 1)
        rc = wk_all_reduce(comm, data[rank], COUNT, WK_F32, WK_SUM, NULL);
    note(s, comm, rank, rc);
    return 0;
}

static void left(struct shared *s, enum ranks_kind kind, enum ranks_hosts hosts)
{
    struct ranks ranks = a_world(s, hosts, 3);
    ranks.kind = kind;
    expect(ranks_run(&ranks, rank_1_leaves) == 0, "leaving", hosts, "");
    expect(s->code[1] == 0, "leaving after the last operation", hosts, s->text[1]);
    for (int r = 0; r < 3; r += 2)
        expect(s->code[r] == WK_EPEER && strstr(s->text[r], "rank 1 has left") &&
                   s->lost_count[r] == 0,
               "a rank that left", hosts, s->text[r]);
}

static int close_with_work(struct wk_comm *comm, int rank, int rc, const struct ranks *ranks)
{
    struct shared *s = ranks->arg;
    float data[10] = {0};
    struct wk_work *works[2];
    if (rc != 0)
        return 1;
    if (rank == 0) {
        for (int w = 0; w < 2; w++)
            if (wk_all_reduce(comm, data, 10, WK_F32, WK_SUM, &works[w]) != 0)
                return 1;
    } else {
        nap_ms(50);
        rc = wk_barrier(comm, NULL);
    }
    note(s, comm, rank, rc);
    if (rank != 0)
        return 0;
    wk_comm_abort(comm);
    return wk_wait(works[0]) != WK_EABORT || wk_wait(works[1]) != WK_EABORT;
}

static void queued(struct shared *s, enum ranks_kind kind, enum ranks_hosts hosts)
{
    struct ranks ranks = a_world(s, hosts, 2);
    ranks.kind = kind;
    expect(ranks_run(&ranks, close_with_work) == 0, "abort of queued work", hosts, s->text[0]);
    expect(s->code[1] == WK_EABORT || s->code[1] == WK_EMISMATCH, "abort of queued work", hosts,
           s->text[1]);
}

/* --- who may connect */

static int note_connect(struct wk_comm *comm, int rank, int rc, const struct ranks *ranks)
{
    struct shared *s = ranks->arg;
    (void)comm;
    s->code[rank] = rc;
    if (rank == 1) /* it was answered: now the time of rank 0 is over */
        s->ahead_ms = ranks->connect_timeout_ms * 2L;
    return 0;
}

static void wrong_secret(struct shared *s, enum ranks_hosts hosts)
{
    struct ranks ranks = a_world(s, hosts, 2);
    ranks.connect_timeout_ms = 500;
    ranks.wrong_secret_of = 1;
    clock_slow(s);
    ranks_run(&ranks, note_connect);
    clock_again();
    expect(s->code[1] == WK_EUNAVAILABLE, "wrong secret is refused", hosts, "");
    expect(s->code[0] == WK_ETIMEOUT, "wrong secret does not count as arrived", hosts, "");
}

/* Other tests' jobs have files in the machine's. False: there is no other. */
static bool shm_of_our_own(void)
{
    return unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("shm", "/dev/shm", "tmpfs", 0, NULL) == 0;
}

static void nothing_left_behind(bool own_shm)
{
    DIR *dir = opendir("/dev/shm");
    struct dirent *entry;
    while (own_shm && dir && (entry = readdir(dir)))
        expect(entry->d_name[0] == '.', "left in /dev/shm", HOSTS_SHARED, entry->d_name);
    if (dir)
        closedir(dir);
    expect(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD, "left a process", HOSTS_SHARED, "");
}

int main(int argc, char **argv)
{
    int threads = argc > 1 && strcmp(argv[1], "threads") == 0;
    enum ranks_kind kind = threads ? RANKS_THREADS : RANKS_PROCESSES;
    bool own_shm = shm_of_our_own();
    if (!own_shm)
        printf("SKIPPED: what is left in /dev/shm: only root has one of its own\n");
    struct shared *s = ranks_shared(sizeof(*s));
    for (int h = HOSTS_SHARED; h <= HOSTS_MIXED; h++) {
        enum ranks_hosts hosts = (enum ranks_hosts)h;
        aborted(s, kind, hosts);
        timed_out(s, kind, hosts);
        mismatched(s, kind, hosts);
        mismatched_elsewhere(s, kind, hosts);
        left(s, kind, hosts);
        queued(s, kind, hosts);
        if (threads)
            continue;
        for (int world = 3; world <= 5; world++)
            killed_while_awaited(s, hosts, world);
        for (int after_ms = 0; after_ms < 60; after_ms += 7)
            killed_while_moving(s, hosts, 2 + after_ms % 3, after_ms);
        wrong_secret(s, hosts);
    }
    if (!threads) {
        killed_with_a_child(s);
        nothing_left_behind(own_shm);
    }
    printf(failures ? "%d FAILED\n" : "all ok\n", failures);
    return failures != 0;
}
