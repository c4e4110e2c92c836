#include "tests/cuda/fake/capture.h"

#include <stdlib.h>

#include "common/base/assert.h"

enum { NODES_MAX = 4096 };

/* A piece of work, or a copy where `run` has no function. */
struct node {
    struct fake_work run;
    void *to;
    const void *from;
    size_t bytes;
    int slot; /* of its stream */
    struct fake_clock clock;
};

struct CUgraph_st {
    int users; /* the program, executables, launches under way */
    int under_way;
    int n;
    struct node nodes[NODES_MAX];
};

struct CUgraphExec_st {
    struct CUgraph_st *graph;
};

struct capture {
    struct CUgraph_st *graph;
    int origin; /* slot of the stream that it began on */
    bool invalid;
    uint64_t number;
    bool member[FAKE_STREAMS_MAX];
    struct fake_clock clock[FAKE_STREAMS_MAX]; /* of each member: what is before its next node */
};

struct captured_event {
    uint64_t number; /* of the capture */
    struct fake_clock clock;
};

static struct capture *captures[FAKE_STREAMS_MAX]; /* by slot */
static uint64_t begun;
static int live;

bool is_captured(const struct CUstream_st *stream)
{
    return captures[stream->slot];
}

int graphs_live(void)
{
    return live;
}

static cudaError_t spoil(struct capture *capture, cudaError_t rc)
{
    capture->invalid = true;
    return rc;
}

cudaError_t capture_forbids(const struct CUstream_st *stream)
{
    cudaError_t rc = cudaSuccess;
    for (int i = 0; i < FAKE_STREAMS_MAX; i++) {
        if (captures[i] && (!stream || captures[i] == captures[stream->slot]))
            rc = spoil(captures[i], cudaErrorStreamCaptureUnsupported);
    }
    return rc;
}

static void graph_drop(struct CUgraph_st *graph)
{
    if (--graph->users)
        return;
    for (int i = 0; i < graph->n; i++) {
        if (graph->nodes[i].run.drop)
            graph->nodes[i].run.drop(graph->nodes[i].run.arg);
    }
    live--;
    free(graph);
}

static void clock_join(struct fake_clock *clock, const struct fake_clock *other)
{
    for (int i = 0; i < FAKE_STREAMS_MAX; i++)
        clock->at[i] = other->at[i] > clock->at[i] ? other->at[i] : clock->at[i];
}

/* A place for a node after all that its stream has; NULL: the capture is invalid. */
static struct node *add(struct CUstream_st *stream)
{
    struct capture *capture = captures[stream->slot];
    struct fake_clock *clock = &capture->clock[stream->slot];
    if (capture->invalid)
        return NULL;
    if (capture->graph->n == NODES_MAX)
        fake_found("a graph of more than %d pieces of work", NODES_MAX);
    struct node *node = &capture->graph->nodes[capture->graph->n++];
    clock->at[stream->slot]++;
    *node = (struct node){.slot = stream->slot, .clock = *clock};
    return node;
}

cudaError_t capture_work(struct CUstream_st *stream, const struct fake_work *work)
{
    struct node *node = add(stream);
    if (node)
        node->run = *work;
    else if (work->drop)
        work->drop(work->arg);
    return node ? cudaSuccess : cudaErrorStreamCaptureInvalidated;
}

cudaError_t capture_copy(struct CUstream_st *stream, void *to, const void *from, size_t bytes)
{
    bool known = (fake_is_device(to, bytes) || fake_is_pinned(to, bytes)) &&
                 (fake_is_device(from, bytes) || fake_is_pinned(from, bytes));
    if (!known)
        fake_found("a copy that is captured from %p to %p, of which one is host memory that is not "
                   "pinned: a later launch finds other content there, or none",
                   from, to);
    struct node *node = add(stream);
    if (!node)
        return cudaErrorStreamCaptureInvalidated;
    node->to = to;
    node->from = from;
    node->bytes = bytes;
    return cudaSuccess;
}

void captured_event_drop(struct CUevent_st *event)
{
    free(event->captured);
    event->captured = NULL;
}

cudaError_t capture_record(struct CUstream_st *stream, struct CUevent_st *event)
{
    const struct capture *capture = captures[stream->slot];
    if (capture->invalid)
        return cudaErrorStreamCaptureInvalidated;
    captured_event_drop(event);
    event->captured = malloc(sizeof(*event->captured));
    insist(event->captured);
    *event->captured = (struct captured_event){capture->number, capture->clock[stream->slot]};
    return cudaSuccess;
}

static struct capture *capture_numbered(uint64_t number)
{
    for (int i = 0; i < FAKE_STREAMS_MAX; i++) {
        if (captures[i] && captures[i]->number == number)
            return captures[i];
    }
    return NULL;
}

cudaError_t capture_wait(struct CUstream_st *stream, const struct CUevent_st *event)
{
    struct capture *own = captures[stream->slot];
    struct capture *its = event->captured ? capture_numbered(event->captured->number) : NULL;
    if (own && own->invalid)
        return cudaErrorStreamCaptureInvalidated;
    if (own && !event->captured)
        return event->mark ? spoil(own, cudaErrorStreamCaptureIsolation) : cudaSuccess;
    if (!its)
        return own ? spoil(own, cudaErrorCapturedEvent) : cudaErrorCapturedEvent;
    if (own && own != its)
        return spoil(own, cudaErrorStreamCaptureMerge);
    if (!own) {
        captures[stream->slot] = its;
        its->member[stream->slot] = true;
        its->clock[stream->slot].at[stream->slot]++;
    }
    clock_join(&its->clock[stream->slot], &event->captured->clock);
    return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    cudaError_t rc = fake_enter();
    if (!rc && !fake_stream_knows(stream))
        fake_found("cudaStreamBeginCapture of %p, which is no stream", (void *)stream);
    if (mode == cudaStreamCaptureModeGlobal)
        fake_found("a capture that calls of other threads end: its mode is global");
    if (!rc && is_captured(stream))
        rc = cudaErrorIllegalState;
    if (rc)
        return fake_error(rc);
    struct capture *capture = calloc(1, sizeof(*capture));
    insist(capture);
    capture->graph = calloc(1, sizeof(*capture->graph));
    insist(capture->graph);
    live++;
    capture->graph->users = 1;
    capture->origin = stream->slot;
    capture->number = ++begun;
    capture->member[stream->slot] = true;
    captures[stream->slot] = capture;
    return cudaSuccess;
}

/* All members' work is before the end. */
static bool is_joined(const struct capture *capture)
{
    const struct fake_clock *end = &capture->clock[capture->origin];
    for (int i = 0; i < FAKE_STREAMS_MAX; i++) {
        if (capture->member[i] && end->at[i] < capture->clock[i].at[i])
            return false;
    }
    return true;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *ret)
{
    struct capture *capture = fake_stream_knows(stream) ? captures[stream->slot] : NULL;
    *ret = NULL;
    if (!capture || capture->origin != stream->slot)
        return fake_error(capture ? cudaErrorStreamCaptureUnmatched : cudaErrorIllegalState);
    cudaError_t rc = capture->invalid      ? cudaErrorStreamCaptureInvalidated
                     : !is_joined(capture) ? cudaErrorStreamCaptureUnjoined
                                           : cudaSuccess;
    for (int i = 0; i < FAKE_STREAMS_MAX; i++)
        captures[i] = capture->member[i] ? NULL : captures[i];
    if (rc)
        graph_drop(capture->graph);
    else
        *ret = capture->graph;
    free(capture);
    return fake_error(rc);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *ret, cudaGraph_t graph, unsigned long long flags)
{
    cudaError_t rc = fake_enter();
    if (flags)
        fake_found("a graph with flags that this runtime does not know");
    *ret = rc || fake_is_scarce() ? NULL : calloc(1, sizeof(**ret));
    if (*ret) {
        (*ret)->graph = graph;
        graph->users++;
        live++;
    }
    return fake_error(rc ? rc : *ret ? cudaSuccess : cudaErrorMemoryAllocation);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    graph_drop(graph);
    return cudaSuccess;
}

/* What happens to the work of one that is destroyed while it runs is not documented. */
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    if (exec->graph->under_way)
        fake_found("a graph is destroyed before the host has waited for its work");
    graph_drop(exec->graph);
    live--;
    free(exec);
    return cudaSuccess;
}

/* A launch of a graph: its pieces in some order, then its end. */
struct launched {
    const struct node *node;
    struct CUgraph_st *graph;
};

static void run_node(void *arg)
{
    const struct launched *launched = arg;
    launched->node->run.run(launched->node->run.arg);
}

static void end_launch(void *arg)
{
    (void)arg;
}

static void drop_launch(void *arg)
{
    struct launched *launched = arg;
    if (!launched->node) {
        launched->graph->under_way--;
        graph_drop(launched->graph);
    }
    free(launched);
}

static void enqueue_part(cudaStream_t stream, struct CUgraph_st *graph, const struct node *node)
{
    struct launched *launched = malloc(sizeof(*launched));
    insist(launched);
    *launched = (struct launched){node, graph};
    const struct fake_work work = {node ? node->run.name : "end of a graph",
                                   node ? run_node : end_launch, drop_launch, launched};
    stream_add(stream, &work);
}

static bool is_before(const struct node *a, const struct node *b)
{
    return b->clock.at[a->slot] >= a->clock.at[a->slot];
}

/* One of the pieces that are left, after all that is before it. */
static int choose(const struct CUgraph_st *graph, const bool *done)
{
    int ready[NODES_MAX], n = 0;
    for (int i = 0; i < graph->n; i++) {
        bool waits = done[i];
        for (int k = 0; k < i && !waits; k++)
            waits = !done[k] && is_before(&graph->nodes[k], &graph->nodes[i]);
        if (!waits)
            ready[n++] = i;
    }
    return ready[fake_random((uint64_t)n)];
}

static bool has_branches(const struct CUgraph_st *graph)
{
    for (int i = 1; i < graph->n; i++) {
        if (graph->nodes[i].slot != graph->nodes[0].slot)
            return true;
    }
    return false;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    struct CUgraph_st *graph = exec->graph;
    cudaError_t rc = fake_enter();
    if (!rc && !fake_stream_knows(stream))
        fake_found("cudaGraphLaunch on %p, which is no stream", (void *)stream);
    if (!rc && is_captured(stream))
        fake_found("a graph in a capture, which this runtime does not know");
    if (rc)
        return fake_error(rc);
    bool done[NODES_MAX] = {false}, branches = has_branches(graph);
    graph->users++;
    graph->under_way++;
    fake.counts.calls++;
    for (int i = 0; i < graph->n; i++) {
        int at = branches ? choose(graph, done) : i;
        const struct node *node = &graph->nodes[at];
        done[at] = true;
        if (node->run.run)
            enqueue_part(stream, graph, node);
        else
            fake_copy(stream, node->to, node->from, node->bytes);
    }
    enqueue_part(stream, graph, NULL);
    fake_run_some();
    fake_memory_close();
    return fake_error(fake.sticky);
}
