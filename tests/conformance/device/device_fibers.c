/* Mistakes with host memory, which no launch declares: ThreadSanitizer reports them with every
 * seed, because each queue is a fiber (rehearsal/fiber.h). The same programs without the mistake
 * have no report. */
#include <sys/wait.h>

#include "libworker/device/rehearsal/fiber.h"
#include "libworker/device/rehearsal/rehearsal.h"
#include "tests/conformance/device/programs.h"

enum { SEEDS = 20, TEXT_MAX = 1 << 16 };

/* Host memory that launches use. */
struct host {
    int factor, calls;
};

struct scale {
    float *x;
    struct host *host;
};

static void run_scale(struct queue *queue, const void *args)
{
    (void)queue;
    const struct scale *scale = args;
    scale->x[0] *= (float)scale->host->factor;
}

static void run_count(struct queue *queue, const void *args)
{
    (void)queue;
    ((const struct scale *)args)->host->calls++;
}

struct stage {
    struct queue *queue, *other;
    float *x;
    struct host *host;
};

static void launch_scale(const struct stage *s, struct queue *queue)
{
    struct scale scale = {s->x, s->host};
    LAUNCH(queue, "scale", run_scale, scale, uses(s->x, 1, DEVICE_UPDATE));
}

static void launch_count(const struct stage *s, struct queue *queue)
{
    struct scale scale = {s->x, s->host};
    LAUNCH(queue, "count", run_count, scale, {s->x, 0, DEVICE_READ});
}

/* What args point to changes before the launch has been waited for. */
static void host_writes_too_early(const struct stage *s, bool wrong)
{
    launch_scale(s, s->queue);
    if (!wrong)
        CHECK(queue_finish(s->queue, NULL) == 0);
    s->host->factor = 3;
    launch_scale(s, s->queue);
}

static void host_reads_too_early(const struct stage *s, bool wrong)
{
    launch_count(s, s->queue);
    launch_count(s, s->queue);
    if (!wrong)
        CHECK(queue_finish(s->queue, NULL) == 0);
    CHECK(s->host->calls >= 0);
}

/* It waits for an event, but of work before the one that matters. */
static void host_waits_too_little(const struct stage *s, bool wrong)
{
    launch_scale(s, s->queue);
    struct event event = event_record(s->queue);
    launch_scale(s, s->queue);
    if (!wrong)
        event = event_record(s->queue);
    CHECK(event_wait(event, NULL) == 0);
    s->host->factor = 3;
}

/* Scratch memory of the host that two queues share. */
static void queues_share_host_memory(const struct stage *s, bool wrong)
{
    launch_count(s, s->queue);
    if (!wrong)
        queue_wait(s->other, event_record(s->queue));
    launch_count(s, s->other);
}

static void child_main(void (*program)(const struct stage *, bool), bool wrong, uint64_t seed)
{
    static struct host host = {.factor = 2};
    struct device *device = NULL;
    CHECK(rehearsal_new(&(struct rehearsal_options){.seed = seed}, &device, NULL) == 0);
    struct stage s = {a_queue(device), a_queue(device), device_buffer(device, 64), &host};
    queue_fill(s.queue, s.x, 0, 64);
    CHECK(queue_finish(s.queue, NULL) == 0);
    program(&s, wrong);
    CHECK(queue_finish(s.queue, NULL) == 0 && queue_finish(s.other, NULL) == 0);
    device_memory_free(device, s.x, 64);
    queue_free(s.queue);
    queue_free(s.other);
    device_free(device);
    exit(0);
}

static bool is_reported(void (*program)(const struct stage *, bool), bool wrong, uint64_t seed)
{
    static char text[TEXT_MAX];
    size_t length = 0;
    int pipes[2], status;
    CHECK(pipe(pipes) == 0);
    fflush(NULL);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        CHECK(dup2(pipes[1], STDERR_FILENO) >= 0);
        child_main(program, wrong, seed);
    }
    close(pipes[1]);
    for (ssize_t n; (n = read(pipes[0], text + length, TEXT_MAX - 1 - length)) > 0;)
        length += (size_t)n;
    text[length] = '\0';
    close(pipes[0]);
    CHECK(waitpid(pid, &status, 0) == pid);
    bool reported = strstr(text, "ThreadSanitizer: data race") != NULL;
    if ((status != 0) != reported)
        fputs(text, stderr);
    CHECK((status != 0) == reported);
    return reported;
}

static void check_program(void (*program)(const struct stage *, bool))
{
    if (!FIBERS) {
        check_skip("this build is without ThreadSanitizer");
        return;
    }
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        CHECK(is_reported(program, true, seed));
        CHECK(!is_reported(program, false, seed));
    }
}

static void the_host_writes_too_early(void)
{
    check_program(host_writes_too_early);
}

static void the_host_reads_too_early(void)
{
    check_program(host_reads_too_early);
}

static void the_host_waits_too_little(void)
{
    check_program(host_waits_too_little);
}

static void two_queues_share_host_memory(void)
{
    check_program(queues_share_host_memory);
}

static const struct check_case cases[] = {
    CHECK_CASE(the_host_writes_too_early),
    CHECK_CASE(the_host_reads_too_early),
    CHECK_CASE(the_host_waits_too_little),
    CHECK_CASE(two_queues_share_host_memory),
    {0},
};

int main(int argc, char **argv)
{
    return check_all(cases, argc, argv);
}
