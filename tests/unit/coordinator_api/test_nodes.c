/* What nodes are told, and what they tell. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "common/rpc/message.h"
#include "coordinator/api_rpc/service.h"
#include "coordinator/driver.h"
#include "coordinator/store/store_memory.h"
#include "tests/unit/coordinator_api/world.h"

TestSuite(nodes, .init = world_open, .fini = world_close);

static void submit(const char *name, const char *key, struct answer *ret)
{
    submit_true(name, world.admin, key, ret);
}

static void register_node(uint64_t incarnation)
{
    register_node_of(incarnation, 2);
}

Test(nodes, nodes_are_told_what_to_run_when_it_changes)
{
    struct answer polled, waiting, submitted;
    register_node(7);
    Muster__NodePollRequest message = poll_message(0);
    const Muster__NodePollAnswer *got = agent(&world, "Poll", &message, &polled);
    cr_assert_eq(got->n_assignments, 0);
    message = poll_message(got->version);
    struct call call = {.service = &muster__nodes__descriptor,
                        .method = "Poll",
                        .message = &message.base,
                        .token = world.agent,
                        .timeout_ms = 30000};
    call_start(&world, &call, &waiting);
    world_run(&world, 1000);
    cr_assert_not(waiting.done, "answered although nothing changed");
    submit("a", NULL, &submitted);
    cr_assert(waiting.done && waiting.message, "%s", waiting.err.text);
    got = (void *)waiting.message;
    cr_assert_eq(got->n_assignments, 1);
    const Muster__Assignment *assignment = got->assignments[0];
    cr_assert_str_eq(assignment->job, ((Muster__Job *)submitted.message)->id);
    cr_assert_eq(got->n_shared, 1);
    cr_assert_str_eq(got->shared[0]->spec->command[0], "true");
    cr_assert(strncmp(assignment->token, "mst_worker_", 11) == 0);
    cr_assert_eq(assignment->secret.len, 32u);
    cr_assert_str_eq(assignment->master_addr, "127.0.0.1");
    cr_assert(assignment->master_port >= 30000 && assignment->master_port <= 30010);
    cr_assert_eq(assignment->world, 1u);
    answer_fini(&polled);
    answer_fini(&waiting);
    answer_fini(&submitted);
}

/* A number of an earlier run must not be taken for one of this. */
Test(nodes, a_poll_from_before_a_restart_is_answered_at_once)
{
    struct answer before, after;
    register_node(7);
    Muster__NodePollRequest message = poll_message(0);
    const Muster__NodePollAnswer *got = agent(&world, "Poll", &message, &before);
    message = poll_message(got->version);
    world_restart(&world);
    int64_t start_ms = world.now_ms;
    agent(&world, "Poll", &message, &after);
    cr_assert_lt(world.now_ms - start_ms, 10);
    answer_fini(&before);
    answer_fini(&after);
}

Test(nodes, another_incarnation_is_fenced_and_a_stranger_must_register)
{
    struct answer answer;
    Muster__NodePollRequest message = poll_message(0);
    struct call call = {.service = &muster__nodes__descriptor,
                        .method = "Poll",
                        .message = &message.base,
                        .token = world.agent};
    expect_refused(&call, E_NOT_FOUND);
    register_node(7);
    register_node(8);
    expect_refused(&call, E_ABORTED);
    (void)answer;
}

Test(nodes, a_connection_that_ends_takes_its_node_with_it)
{
    struct answer answer;
    Muster__ListNodesRequest list = MUSTER__LIST_NODES_REQUEST__INIT;
    register_node(7);
    service_peer_gone(coordinator_service(world.coordinator), 99); /* somebody else */
    const Muster__ListNodesAnswer *got = client(&world, "ListNodes", &list, &answer);
    cr_assert_eq(got->nodes[0]->state, MUSTER__NODE__STATE__ready);
    answer_fini(&answer);
    service_peer_gone(coordinator_service(world.coordinator), 1);
    got = client(&world, "ListNodes", &list, &answer);
    cr_assert_eq(got->nodes[0]->state, MUSTER__NODE__STATE__unreachable, "state %d",
                 got->nodes[0]->state);
    answer_fini(&answer);
}

static void expect_uses(const Muster__Node *node)
{
    cr_assert_eq(node->n_uses, 2);
    cr_assert_eq(node->slots_used, 2);
    for (int i = 0; i < 2; i++) {
        cr_expect_str_eq(node->uses[i]->name, i ? "b" : "a");
        cr_expect_str_eq(node->uses[i]->job, node->jobs[i]);
        cr_expect_eq(node->uses[i]->slots, 1);
    }
}

Test(nodes, nodes_tell_what_each_job_uses)
{
    struct answer first, second, answer;
    Muster__ListNodesRequest list = MUSTER__LIST_NODES_REQUEST__INIT;
    Muster__SetNodeRequest cordon = MUSTER__SET_NODE_REQUEST__INIT;
    register_node(7);
    submit("a", NULL, &first);
    submit("b", NULL, &second);
    const Muster__ListNodesAnswer *got = client(&world, "ListNodes", &list, &answer);
    expect_uses(got->nodes[0]);
    answer_fini(&answer);
    cordon.name = "n1";
    cordon.action = "cordon";
    expect_uses(client(&world, "SetNode", &cordon, &answer));
    answer_fini(&answer);
    answer_fini(&first);
    answer_fini(&second);
}

static void report_links(uint64_t sequence, const char *const *rows, int count)
{
    struct answer answer;
    Muster__GpuLinks links[NODE_GPUS_MAX + 1], *list[NODE_GPUS_MAX + 1];
    Muster__NodeReport report = MUSTER__NODE_REPORT__INIT;
    for (int i = 0; i < count; i++) {
        links[i] = (Muster__GpuLinks)MUSTER__GPU_LINKS__INIT;
        links[i].links = rpc_text(rows[i % 2]);
        links[i].nvlinks_known_case = MUSTER__GPU_LINKS__NVLINKS_KNOWN_NVLINKS;
        links[i].nvlinks = 3;
        links[i].nvswitch = true;
        list[i] = &links[i];
    }
    report.node = "n1";
    report.incarnation = 7;
    report.sequence = sequence;
    report.gpu_links = list;
    report.n_gpu_links = (size_t)count;
    agent(&world, "Report", &report, &answer);
    answer_fini(&answer);
}

static void expect_rows(const char *first, const char *second)
{
    struct answer answer;
    Muster__ListNodesRequest list = MUSTER__LIST_NODES_REQUEST__INIT;
    const Muster__ListNodesAnswer *got = client(&world, "ListNodes", &list, &answer);
    cr_assert_eq(got->nodes[0]->n_gpus, 2);
    cr_expect_str_eq(got->nodes[0]->gpus[0]->links, first);
    cr_expect_str_eq(got->nodes[0]->gpus[1]->links, second);
    cr_expect_eq(got->nodes[0]->gpus[1]->nvlinks, 3);
    cr_expect(got->nodes[0]->gpus[1]->nvswitch);
    answer_fini(&answer);
}

/* Words that are not known count for nothing, and what is of another number of GPUs is ignored. */
Test(nodes, links_of_a_report_are_checked_kept_and_outlive_a_restart)
{
    static const char *const fewer[] = {"X NV3", "NV3 X"}, *const odd[] = {"X NV2 SYS", "NV9000 X"};
    struct answer answer;
    Muster__RegisterNodeRequest message = MUSTER__REGISTER_NODE_REQUEST__INIT;
    Muster__Gpu gpus[2], *list[2] = {&gpus[0], &gpus[1]};
    for (int i = 0; i < 2; i++) {
        gpus[i] = (Muster__Gpu)MUSTER__GPU__INIT;
        gpus[i].links = i ? "NV4 X" : "X NV4";
        gpus[i].uuid = i ? "GPU-1" : "GPU-0";
    }
    message.name = "n1";
    message.incarnation = 7;
    message.address = "127.0.0.1";
    message.slots = 2;
    message.gpus = list;
    message.n_gpus = 2;
    agent(&world, "RegisterNode", &message, &answer);
    answer_fini(&answer);
    report_links(1, fewer, 2);
    expect_rows("X NV3", "NV3 X");
    report_links(2, odd, 1);
    report_links(3, odd, 3);
    report_links(4, odd, NODE_GPUS_MAX + 1);
    expect_rows("X NV3", "NV3 X");
    world_restart(&world);
    expect_rows("X NV3", "NV3 X");
    report_links(5, odd, 2);
    expect_rows("X NV2", "");
}
