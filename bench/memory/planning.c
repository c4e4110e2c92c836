/* The time to build a GPT of 100 layers and to plan a training pass of it. A job spends it before
 * its first step, `muster model estimate` for each question. Prints one JSON line: the median of
 * some rounds, in time of the thread's processor.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/alone.h"
#include "libworker/graph/pass.h"

enum { LAYERS = 100, HEADS = 6, WIDTH = 384, CONTEXT = 256, VOCAB = 128, SAMPLES = 4, ROUNDS = 9 };

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Within a part of the bytes that nothing again takes: many plans are listed, few are laid out. */
static bool report_budget(void)
{
    static const struct wk_gpt_config deep = {LAYERS, HEADS, WIDTH, CONTEXT, VOCAB};
    const struct trace_options trains = {.trains = true};
    const struct sizes sizes = {SAMPLES, CONTEXT};
    double ms[ROUNDS];
    struct wk_model *model;
    struct plan *plan;
    if (wk_gpt_new(&deep, &model))
        return false;
    for (int i = 0; i < ROUNDS; i++) {
        wk_model_recompute(model, false);
        if (pass_plan(graph_model_of(model), &trains, &sizes, &plan, NULL))
            return false;
        int64_t bytes = (int64_t)plan->region_bytes * 6 / 10 - i; /* another each time */
        double start_ms = 1e3 * alone_s();
        if (wk_model_recompute_by(model, WK_RECOMPUTE_WITHIN, bytes) ||
            pass_plan(graph_model_of(model), &trains, &sizes, &plan, NULL))
            return false;
        ms[i] = 1e3 * alone_s() - start_ms;
    }
    wk_model_free(model);
    qsort(ms, ROUNDS, sizeof(*ms), by_value);
    printf("{\"bench\":\"memory\",\"metric\":\"plan %d layers within 60%%\",\"ours\":%.2f,"
           "\"unit\":\"ms\"}\n",
           LAYERS, ms[ROUNDS / 2]);
    return true;
}

static bool report_planning(void)
{
    static const struct wk_gpt_config deep = {LAYERS, HEADS, WIDTH, CONTEXT, VOCAB};
    double build_ms[ROUNDS], both_ms[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        struct wk_model *model;
        struct plan *plan;
        struct sizes sizes = {SAMPLES, CONTEXT};
        double start_ms = 1e3 * alone_s();
        if (wk_gpt_new(&deep, &model))
            return false;
        build_ms[i] = 1e3 * alone_s() - start_ms;
        if (pass_plan(graph_model_of(model), &(struct trace_options){.trains = true}, &sizes, &plan,
                      NULL))
            return false;
        both_ms[i] = 1e3 * alone_s() - start_ms;
        wk_model_free(model);
    }
    qsort(build_ms, ROUNDS, sizeof(*build_ms), by_value);
    qsort(both_ms, ROUNDS, sizeof(*both_ms), by_value);
    printf("{\"bench\":\"memory\",\"metric\":\"build and plan %d layers\",\"ours\":%.2f,"
           "\"peer\":%.2f,\"peer_name\":\"of it building\",\"unit\":\"ms\",\"target\":50}\n",
           LAYERS, both_ms[ROUNDS / 2], build_ms[ROUNDS / 2]);
    return true;
}

int main(void)
{
    if (report_planning() && report_budget())
        return 0;
    fprintf(stderr, "bench_memory_planning: no memory\n");
    return 1;
}
