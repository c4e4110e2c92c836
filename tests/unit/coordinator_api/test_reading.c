/* Reading only what one does not know yet, or wants to know. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/coordinator_api/world.h"

TestSuite(reading, .init = world_open, .fini = world_close);

/* The nodes of an answer since that version, which becomes the answer's: "n1 n2", "*" before those
 * of a whole one. */
static const char *nodes_since(uint64_t *version)
{
    static char text[128];
    struct answer answer;
    Muster__ListNodesRequest list = MUSTER__LIST_NODES_REQUEST__INIT;
    list.since = *version;
    const Muster__ListNodesAnswer *got = client(&world, "ListNodes", &list, &answer);
    snprintf(text, sizeof(text), "%s", got->whole ? "*" : "");
    for (size_t i = 0; i < got->n_nodes; i++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof(text) - used, "%s ", got->nodes[i]->name);
    }
    *version = got->version;
    answer_fini(&answer);
    return text;
}

static void add_node(const char *name, uint64_t incarnation)
{
    struct answer answer;
    Muster__RegisterNodeRequest message = MUSTER__REGISTER_NODE_REQUEST__INIT;
    message.name = (char *)(uintptr_t)name;
    message.incarnation = incarnation;
    message.address = "127.0.0.1";
    message.slots = 1;
    message.cpus = 1;
    message.memory_bytes = 1 << 30;
    message.port_first = 30000;
    message.port_last = 30100;
    message.version = "test";
    agent(&world, "RegisterNode", &message, &answer);
    answer_fini(&answer);
}

static void beat(const char *name, uint64_t incarnation, uint64_t sequence)
{
    struct answer answer;
    Muster__NodeReport message = MUSTER__NODE_REPORT__INIT;
    message.node = (char *)(uintptr_t)name;
    message.incarnation = incarnation;
    message.sequence = sequence;
    agent(&world, "Report", &message, &answer);
    answer_fini(&answer);
}

static void cordon(const char *name)
{
    struct answer answer;
    Muster__SetNodeRequest message = MUSTER__SET_NODE_REQUEST__INIT;
    message.name = (char *)(uintptr_t)name;
    message.action = "cordon";
    client(&world, "SetNode", &message, &answer);
    answer_fini(&answer);
}

Test(reading, nodes_that_have_not_changed_are_not_sent_again)
{
    uint64_t version = 0, before;
    cr_expect_str_eq(nodes_since(&version), "*");
    add_node("n1", 7);
    add_node("n2", 8);
    add_node("n3", 9);
    cr_expect_str_eq(nodes_since(&version), "n1 n2 n3 ");
    cr_expect_str_eq(nodes_since(&version), "");
    before = version;
    for (uint64_t i = 1; i < 4; i++) {
        world_run(&world, 1000);
        beat("n1", 7, i);
        beat("n2", 8, i);
        beat("n3", 9, i);
        cr_expect_str_eq(nodes_since(&version), "", "that they were heard of is no change");
    }
    cr_expect_eq(version, before);
    cordon("n2");
    cr_expect_str_eq(nodes_since(&version), "n2 ");
    cordon("n3");
    cr_expect_str_eq(nodes_since(&version), "n3 ");
    cr_expect_str_eq(nodes_since(&before), "n2 n3 ", "two changes at once");
    uint64_t none = 0;
    cr_expect_str_eq(nodes_since(&none), "*n1 n2 n3 ");
}

Test(reading, a_version_of_another_life_gets_all_nodes)
{
    uint64_t version = 0, future;
    add_node("n1", 7);
    cr_expect_str_eq(nodes_since(&version), "*n1 ");
    future = version + 1;
    cr_expect_str_eq(nodes_since(&future), "*n1 ");
    world_restart(&world);
    cr_expect_str_eq(nodes_since(&version), "*n1 ");
}

static void tell(const char *job, const char *name, uint64_t sequence)
{
    struct answer answer;
    Muster__MetricSample sample = MUSTER__METRIC_SAMPLE__INIT;
    Muster__MetricSample *samples[] = {&sample};
    Muster__NodeReport message = MUSTER__NODE_REPORT__INIT;
    sample.job = (char *)(uintptr_t)job;
    sample.generation = 1;
    sample.step = 1;
    sample.name = (char *)(uintptr_t)name;
    sample.value = 2.5;
    message.node = "n1";
    message.incarnation = 7;
    message.sequence = sequence;
    message.metrics = samples;
    message.n_metrics = 1;
    agent(&world, "Report", &message, &answer);
    answer_fini(&answer);
}

static void expect_series(const char *name, const char *names, const char *expected)
{
    char text[128] = "";
    struct answer answer;
    Muster__GetMetricsRequest message = MUSTER__GET_METRICS_REQUEST__INIT;
    message.id = "a";
    message.name = (char *)(uintptr_t)name;
    message.series = (char *)(uintptr_t)names;
    const Muster__GetMetricsAnswer *got = client(&world, "GetMetrics", &message, &answer);
    for (size_t i = 0; i < got->n_series; i++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof(text) - used, "%s ", got->series[i]->name);
    }
    cr_expect_str_eq(text, expected, "of '%s' and '%s': %s", name, names, text);
    answer_fini(&answer);
}

Test(reading, only_the_series_that_are_asked_for)
{
    struct answer submitted;
    register_node_of(7, 2);
    submit_true("a", world.admin, NULL, &submitted);
    const char *id = ((Muster__Job *)submitted.message)->id;
    static const char *const names[] = {"loss", "loss/eval", "tokens_per_second", "profile/comm"};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        tell(id, names[i], i + 1);
    expect_series("", "", "loss loss/eval profile/comm tokens_per_second ");
    expect_series("", "loss,tokens_per_second", "loss tokens_per_second ");
    expect_series("loss", "profile/comm", "loss profile/comm ");
    expect_series("loss", "", "loss ");
    expect_series("", "los,loss/,,nothing", "");
    answer_fini(&submitted);
}
