/* What the fake runtime refuses of captures, as CUDA does (capture.h), and branches of a graph.
 *
 *     cuda_capture [CASE]
 */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/cuda/fake/fake.h"
#include "tests/lib/check.h"

enum { SEEDS = 32 };

static const enum cudaStreamCaptureMode MODE = cudaStreamCaptureModeThreadLocal;

struct scene {
    cudaStream_t a, b;
    cudaEvent_t forked, joined;
    int *memory;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
};

static struct scene scene_new(uint64_t seed)
{
    struct scene s = {NULL};
    fake_begin(&(struct fake_options){.seed = seed, .devices = 1, .driver = 13000});
    CHECK(cudaSetDevice(0) == cudaSuccess);
    CHECK(cudaStreamCreateWithFlags(&s.a, cudaStreamNonBlocking) == cudaSuccess);
    CHECK(cudaStreamCreateWithFlags(&s.b, cudaStreamNonBlocking) == cudaSuccess);
    CHECK(cudaEventCreateWithFlags(&s.forked, cudaEventDisableTiming) == cudaSuccess);
    CHECK(cudaEventCreateWithFlags(&s.joined, cudaEventDisableTiming) == cudaSuccess);
    CHECK(cudaMalloc((void **)&s.memory, 64) == cudaSuccess);
    CHECK(cudaMemsetAsync(s.memory, 0, 64, s.a) == cudaSuccess);
    return s;
}

static void scene_free(struct scene *s)
{
    (void)cudaGetLastError();
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    if (s->exec)
        CHECK(cudaGraphExecDestroy(s->exec) == cudaSuccess);
    if (s->graph)
        CHECK(cudaGraphDestroy(s->graph) == cudaSuccess);
    CHECK(cudaEventDestroy(s->forked) == cudaSuccess && cudaEventDestroy(s->joined) == cudaSuccess);
    CHECK(cudaFree(s->memory) == cudaSuccess);
    CHECK(cudaStreamDestroy(s->a) == cudaSuccess && cudaStreamDestroy(s->b) == cudaSuccess);
    fake_end();
}

/* memory[at] = 3 * memory[from] + 1 */
struct change {
    int *at;
    const int *from;
};

static void run_change(void *arg)
{
    const struct change *change = arg;
    *change->at = 3 * *change->from + 1;
}

static cudaError_t change(const struct scene *s, cudaStream_t stream, int at, int from)
{
    struct change *change = malloc(sizeof(*change));
    CHECK(change);
    *change = (struct change){s->memory + at, s->memory + from};
    return fake_enqueue(stream, &(struct fake_work){"change", run_change, free, change});
}

static int read_back(const struct scene *s, int at)
{
    int got;
    CHECK(cudaMemcpyAsync(&got, s->memory + at, sizeof(got), cudaMemcpyDeviceToHost, s->a) ==
          cudaSuccess);
    CHECK(cudaStreamSynchronize(s->a) == cudaSuccess);
    return got;
}

static void begin(const struct scene *s)
{
    CHECK(cudaStreamBeginCapture(s->a, MODE) == cudaSuccess);
    CHECK(change(s, s->a, 0, 0) == cudaSuccess);
}

/* Two branches: [1] and [2] of [0], then [3] of [1], once [2] is there. */
static void branches_run_in_any_order(void)
{
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct scene s = scene_new(seed);
        begin(&s);
        CHECK(cudaEventRecord(s.forked, s.a) == cudaSuccess);
        CHECK(cudaStreamWaitEvent(s.b, s.forked, 0) == cudaSuccess);
        CHECK(change(&s, s.a, 1, 0) == cudaSuccess && change(&s, s.b, 2, 0) == cudaSuccess);
        CHECK(cudaEventRecord(s.joined, s.b) == cudaSuccess);
        CHECK(cudaStreamWaitEvent(s.a, s.joined, 0) == cudaSuccess);
        CHECK(change(&s, s.a, 3, 2) == cudaSuccess);
        CHECK(cudaStreamEndCapture(s.a, &s.graph) == cudaSuccess);
        CHECK(cudaGraphInstantiate(&s.exec, s.graph, 0) == cudaSuccess);
        CHECK(read_back(&s, 0) == 0); /* nothing has run */
        for (int i = 0; i < 2; i++)
            CHECK(cudaGraphLaunch(s.exec, s.a) == cudaSuccess);
        CHECK(read_back(&s, 0) == 4 && read_back(&s, 1) == 13 && read_back(&s, 3) == 40);
        scene_free(&s);
    }
}

static void ends_with(struct scene *s, cudaError_t rc)
{
    CHECK(cudaStreamEndCapture(s->a, &s->graph) == rc && !s->graph);
    CHECK(change(s, s->a, 0, 0) == cudaSuccess); /* both streams are as before */
    CHECK(change(s, s->b, 1, 1) == cudaSuccess);
    CHECK(read_back(s, 0) == 1);
    scene_free(s);
}

static void a_branch_must_be_joined(void)
{
    struct scene s = scene_new(1);
    begin(&s);
    CHECK(cudaEventRecord(s.forked, s.a) == cudaSuccess);
    CHECK(cudaStreamWaitEvent(s.b, s.forked, 0) == cudaSuccess);
    CHECK(change(&s, s.b, 1, 0) == cudaSuccess);
    ends_with(&s, cudaErrorStreamCaptureUnjoined);
}

static void the_host_may_not_wait(void)
{
    struct scene s = scene_new(1);
    begin(&s);
    CHECK(cudaStreamSynchronize(s.a) == cudaErrorStreamCaptureUnsupported);
    CHECK(change(&s, s.a, 0, 0) == cudaErrorStreamCaptureInvalidated);
    ends_with(&s, cudaErrorStreamCaptureInvalidated);
    s = scene_new(1);
    begin(&s);
    CHECK(cudaEventRecord(s.forked, s.a) == cudaSuccess);
    CHECK(cudaEventSynchronize(s.forked) == cudaErrorCapturedEvent);
    CHECK(cudaEventQuery(s.forked) == cudaErrorCapturedEvent);
    CHECK(cudaDeviceSynchronize() == cudaErrorStreamCaptureUnsupported);
    ends_with(&s, cudaErrorStreamCaptureInvalidated);
}

static void memory_may_not_be_allocated(void)
{
    struct scene s = scene_new(1);
    void *more;
    begin(&s);
    CHECK(cudaMalloc(&more, 64) == cudaErrorStreamCaptureUnsupported && !more);
    ends_with(&s, cudaErrorStreamCaptureInvalidated);
    s = scene_new(1);
    begin(&s);
    CHECK(cudaFree(s.memory) == cudaErrorStreamCaptureUnsupported);
    ends_with(&s, cudaErrorStreamCaptureInvalidated);
}

static void events_do_not_cross_the_border(void)
{
    struct scene s = scene_new(1);
    CHECK(cudaEventRecord(s.joined, s.b) == cudaSuccess);
    begin(&s);
    CHECK(cudaStreamWaitEvent(s.a, s.joined, 0) == cudaErrorStreamCaptureIsolation);
    ends_with(&s, cudaErrorStreamCaptureInvalidated);
    s = scene_new(1);
    begin(&s);
    CHECK(cudaEventRecord(s.forked, s.a) == cudaSuccess);
    CHECK(cudaStreamEndCapture(s.a, &s.graph) == cudaSuccess);
    CHECK(cudaStreamWaitEvent(s.b, s.forked, 0) == cudaErrorCapturedEvent);
    scene_free(&s);
}

static void a_capture_begins_once(void)
{
    struct scene s = scene_new(1);
    begin(&s);
    CHECK(cudaStreamBeginCapture(s.a, MODE) == cudaErrorIllegalState);
    CHECK(cudaStreamEndCapture(s.a, &s.graph) == cudaSuccess && s.graph);
    scene_free(&s);
}

/* Each ends the program with a sentence. */
static void destroy_it_while_it_runs(struct scene *s)
{
    CHECK(cudaGraphLaunch(s->exec, s->a) == cudaSuccess);
    CHECK(cudaGraphExecDestroy(s->exec) == cudaSuccess);
}

static void keep_it(struct scene *s)
{
    s->exec = NULL;
    scene_free(s);
}

static void copy_from_the_stack(struct scene *s)
{
    int here = 1;
    CHECK(cudaStreamBeginCapture(s->a, MODE) == cudaSuccess);
    (void)cudaMemcpyAsync(s->memory, &here, sizeof(here), cudaMemcpyHostToDevice, s->a);
}

static bool is_found(void (*mistake)(struct scene *))
{
    int status = 0;
    (void)fflush(stdout);
    pid_t child = fork();
    CHECK(child >= 0);
    if (!child) {
        struct scene s = scene_new(0);
        CHECK(freopen("/dev/null", "w", stderr));
        begin(&s);
        CHECK(cudaStreamEndCapture(s.a, &s.graph) == cudaSuccess);
        CHECK(cudaGraphInstantiate(&s.exec, s.graph, 0) == cudaSuccess);
        mistake(&s);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child);
    return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

static void mistakes_are_found(void)
{
    CHECK(is_found(destroy_it_while_it_runs));
    CHECK(is_found(keep_it));
    CHECK(is_found(copy_from_the_stack));
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(branches_run_in_any_order),
        CHECK_CASE(a_branch_must_be_joined),
        CHECK_CASE(the_host_may_not_wait),
        CHECK_CASE(memory_may_not_be_allocated),
        CHECK_CASE(events_do_not_cross_the_border),
        CHECK_CASE(a_capture_begins_once),
        CHECK_CASE(mistakes_are_found),
        {NULL, NULL},
    };
    return check_all(cases, argc, argv);
}
