#include "cli/model_traffic.h"

#include <stdio.h>

#include <worker/optim.h>

#include "cli/client.h"
#include "cli/model_graph.h"
#include "cli/model_needs.h"
#include "cli/table.h"
#include "common/base/parse.h"
#include "libworker/estimate/estimate.h"
#include "libworker/estimate/traffic.h"
#include "libworker/graph/graph_model.h"
#include "libworker/graph/repeat.h"

enum { LIMIT = 1 << 20 };

/* Bytes and FLOP of a second. */
struct roofs {
    double bandwidth, rate;
};

static double floor_seconds(const struct traffic_row *row, const struct roofs *roofs)
{
    double moves = (row->read + row->written) / roofs->bandwidth, sums = row->flop / roofs->rate;
    return moves > sums ? moves : sums;
}

static const char *const parts[] = {
    [TRAFFIC_FORWARD] = "", [TRAFFIC_BACKWARD] = "backward", [TRAFFIC_UPDATE] = "update"};

static void print_row(struct table *table, const struct traffic_row *row, double seconds)
{
    char read[FORMAT_MAX], written[FORMAT_MAX], flop[FORMAT_MAX];
    table_cell(table, "%s", row->name);
    table_cell(table, "%s", parts[row->part]);
    table_cell(table, "%d", row->launches);
    table_cell(table, "%s", format_bytes((uint64_t)row->read, read));
    table_cell(table, "%s", format_bytes((uint64_t)row->written, written));
    table_cell(table, "%s", row->flop > 0 ? count_text(row->flop, flop) : "");
    table_cell(table, "%.2f ms", seconds * 1e3);
}

static void print_traffic(const struct traffic *traffic, const struct roofs *roofs)
{
    static const char *const titles[] = {"OPERATION", "PASS",  ">LAUNCHES", ">READ",
                                         ">WRITTEN",  ">FLOP", ">FLOOR",    NULL};
    double seconds = 0;
    struct table table;
    table_init(&table, titles);
    for (int i = 0; i < traffic->n; i++) {
        double floor = floor_seconds(&traffic->rows[i], roofs);
        print_row(&table, &traffic->rows[i], floor);
        seconds += floor;
    }
    print_row(&table, &traffic->together, seconds);
    table_print(&table, stdout, "no operation");
    table_fini(&table);
}

static int plan_of(const struct args *args, struct wk_model *model, const struct device *device,
                   struct plan **ret, struct error *err)
{
    struct graph_model *m = graph_model_of(model);
    struct needs_pass pass;
    int64_t samples = args_integer(args, "batch"), length = model->context;
    if (args_given(args, "length"))
        length = args_integer(args, "length");
    int rc = number_within("--batch", samples, 1, ESTIMATE_SAMPLES_MAX, err);
    if (!rc)
        rc = number_within("--length", length, 1, model->context, err);
    if (!rc && samples * length > ESTIMATE_TOKENS_MAX)
        rc = error_set(err, E_INVALID_ARGUMENT,
                       "a batch of %lld samples of length %lld is too large", (long long)samples,
                       (long long)length);
    if (!rc)
        rc = needs_pass(args, &pass, err);
    if (rc)
        return rc;
    const struct plan_options wanted = {.trace = {.trains = true},
                                        .sizes = {samples, m->graph->uses_length ? length : 1, 1},
                                        .compute = pass.compute,
                                        .recompute = pass.recompute,
                                        .within = pass.within,
                                        .offload = pass.offload,
                                        .device = device};
    return plan_new(m->graph, &wanted, m->blocks, ret, err);
}

/* Of the optimizer that the options name. */
static int add_update(const struct args *args, const struct wk_model *model,
                      const struct plan *plan, struct traffic *traffic, struct error *err)
{
    struct wk_optimizer *optimizer = NULL;
    int rc = needs_optimizer(args, &optimizer, err);
    if (!rc) {
        const struct traffic_update update = {.model = model,
                                              .optimizer = optimizer,
                                              .compute = plan->options.compute,
                                              .device = plan->options.device,
                                              .graphs =
                                                  device_graphs_of(args_text(args, "compile"))};
        rc = traffic_add_update(&update, traffic, err);
    }
    wk_optimizer_free(optimizer);
    return rc;
}

int traffic_table(const struct args *args, struct wk_model *model, const struct device *device,
                  struct error *err)
{
    int64_t bandwidth = args_integer(args, "bandwidth"), rate = args_integer(args, "rate");
    struct plan *plan = NULL;
    int rc = number_within("--bandwidth", bandwidth, 1, LIMIT, err);
    if (!rc)
        rc = number_within("--rate", rate, 1, LIMIT, err);
    if (!rc)
        rc = plan_of(args, model, device, &plan, err);
    if (rc)
        return rc;
    struct traffic traffic;
    struct chosen_kernels chosen;
    traffic_count(plan, &traffic);
    chosen_find(plan, &chosen);
    char graphs[REPEAT_REASON_BYTES];
    repeat_reason(plan, device_graphs_of(args_text(args, "compile")), graphs);
    rc = add_update(args, model, plan, &traffic, err);
    plan_free(plan);
    if (rc)
        return rc;
    print_traffic(&traffic, &(struct roofs){(double)bandwidth * 1e9, (double)rate * 1e12});
    model_graph_chosen(&chosen);
    if (device)
        printf("%s\n%s\n", graphs, traffic.update_graphs);
    return 0;
}
