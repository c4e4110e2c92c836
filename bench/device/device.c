/* What a launch costs beside its kernel: on the CPU device, beside a plain call through a pointer,
 * and on the rehearsal device.
 *
 * Usage: bench_device. The least of ROUNDS rounds of CALLS calls; times are of the thread's
 * processor. */
#include <stdio.h>
#include <time.h>

#include "libworker/device/cpu.h"
#include "libworker/device/rehearsal/rehearsal.h"

enum { ROUNDS = 300, CALLS = 20000, REHEARSED = 200 };

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

struct count {
    long *to;
};

static void run_count(struct queue *queue, const void *args)
{
    (void)queue;
    ++*((const struct count *)args)->to;
}

struct bench {
    struct queue *queue, *other;
    struct device_launch launch;
};

static void call_plainly(const struct bench *b)
{
    void (*volatile const *run)(struct queue *, const void *) = &b->launch.run;
    (*run)(b->queue, b->launch.args);
}

static void call_launch(const struct bench *b)
{
    queue_launch(b->queue, &b->launch);
}

static void call_event(const struct bench *b)
{
    queue_wait(b->other, event_record(b->queue));
}

static void call_launch_and_finish(const struct bench *b)
{
    queue_launch(b->queue, &b->launch);
    (void)queue_finish(b->queue, NULL);
}

/* Nanoseconds a call, the least of the rounds. */
static double measure(const struct bench *b, void (*call)(const struct bench *), int calls)
{
    double least = 1e18;
    for (int round = 0; round < ROUNDS; round++) {
        double begin = now_ns();
        for (int i = 0; i < calls; i++)
            call(b);
        double ns = (now_ns() - begin) / calls;
        least = ns < least ? ns : least;
    }
    return least;
}

static void print(const char *metric, double ns, double peer_ns)
{
    printf("{\"bench\": \"device\", \"metric\": \"%s\", \"ours\": %.2f, \"peer\": %.2f, "
           "\"peer_name\": \"a call through a pointer\", \"ratio\": %.2f, \"unit\": \"ns\"}\n",
           metric, ns, peer_ns, ns / peer_ns);
}

static int bench_on(struct device *device, const char *prefix, int calls)
{
    struct bench b;
    void *memory;
    char metric[64];
    if (queue_new(device, &b.queue, NULL) || queue_new(device, &b.other, NULL) ||
        device_memory_new(device, 4096, &memory, NULL))
        return 1;
    bool host = device_host_reads(device);
    long counted = 0;
    struct count args = {host ? memory : &counted};
    struct device_range range = {memory, 4096, DEVICE_UPDATE};
    b.launch = (struct device_launch){"count", run_count, &args, sizeof(args), &range, 1};
    queue_fill(b.queue, memory, 0, 4096);
    (void)queue_finish(b.queue, NULL);

    double plain = measure(&b, call_plainly, CALLS);
    snprintf(metric, sizeof(metric), "%s launch", prefix);
    print(metric, measure(&b, host ? call_launch : call_launch_and_finish, calls), plain);
    if (host) {
        snprintf(metric, sizeof(metric), "%s event and wait", prefix);
        print(metric, measure(&b, call_event, calls), plain);
    }
    device_memory_free(device, memory, 4096);
    queue_free(b.queue);
    queue_free(b.other);
    device_free(device);
    return 0;
}

int main(void)
{
    struct device *cpu, *rehearsal;
    if (device_cpu_new(&cpu, NULL) || bench_on(cpu, "cpu", CALLS) ||
        rehearsal_new(&(struct rehearsal_options){.seed = 1}, &rehearsal, NULL))
        return 1;
    return bench_on(rehearsal, "rehearsal", REHEARSED);
}
