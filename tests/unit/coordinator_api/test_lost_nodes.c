/* Lost nodes are forgotten in the cluster, on disk, in lists and in what the service keeps of them;
 * and a join token has a share of the places. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "common/base/limits.h"
#include "common/base/str.h"
#include "coordinator/api_rpc/access.h"
#include "coordinator/api_rpc/service.h"
#include "coordinator/api_rpc/service_admit.h"
#include "coordinator/node_retention.h"
#include "coordinator/retention.h"
#include "coordinator/store/store_memory.h"
#include "tests/unit/coordinator_api/world.h"

enum { HOUR_MS = 3600000 };

TestSuite(lost_nodes, .init = world_open, .fini = world_close, .timeout = 120);

struct node_call {
    const char *name, *token, *key;
    uint64_t incarnation, peer;
};

/* The code of the answer; its text and hint are in `ret` if that is not NULL. */
static int join(const struct node_call *node, struct error *ret)
{
    struct answer answer;
    Muster__RegisterNodeRequest message = MUSTER__REGISTER_NODE_REQUEST__INIT;
    message.name = (char *)(uintptr_t)node->name;
    message.incarnation = node->incarnation ? node->incarnation : 7;
    message.address = "127.0.0.1";
    message.slots = 1;
    message.cpus = 1;
    message.version = "test";
    struct call call = {.service = &muster__nodes__descriptor,
                        .method = "RegisterNode",
                        .message = &message.base,
                        .token = node->token,
                        .peer = node->peer,
                        .peer_key = node->key};
    call_now(&world, &call, &answer);
    int code = answer.err.code;
    if (ret)
        *ret = answer.err;
    answer_fini(&answer);
    return code;
}

static int beat(const struct node_call *node, uint64_t sequence)
{
    struct answer answer;
    Muster__NodeReport message = MUSTER__NODE_REPORT__INIT;
    message.node = (char *)(uintptr_t)node->name;
    message.incarnation = node->incarnation ? node->incarnation : 7;
    message.sequence = sequence;
    struct call call = {.service = &muster__nodes__descriptor,
                        .method = "Report",
                        .message = &message.base,
                        .token = node->token,
                        .peer = node->peer,
                        .peer_key = node->key};
    call_now(&world, &call, &answer);
    int code = answer.err.code;
    answer_fini(&answer);
    return code;
}

/* "*n1 n2 -n3": a whole list, nodes, forgotten ones since that version, which becomes the
 * list's. */
static const char *nodes_since(uint64_t *version)
{
    static char text[256];
    struct answer answer;
    Muster__ListNodesRequest list = MUSTER__LIST_NODES_REQUEST__INIT;
    list.since = *version;
    const Muster__ListNodesAnswer *got = client(&world, "ListNodes", &list, &answer);
    snprintf(text, sizeof(text), "%s", got->whole ? "*" : "");
    for (size_t i = 0; i < got->n_nodes + got->n_forgotten; i++) {
        size_t used = strlen(text);
        bool known = i < got->n_nodes;
        snprintf(text + used, sizeof(text) - used, "%s%s ", known ? "" : "-",
                 known ? got->nodes[i]->name : got->forgotten[i - got->n_nodes]);
    }
    *version = got->version;
    answer_fini(&answer);
    return text;
}

static int audited(const char *method)
{
    int count = 0;
    struct answer answer;
    Muster__ListAuditRequest list = MUSTER__LIST_AUDIT_REQUEST__INIT;
    list.limit = 1000;
    const Muster__ListAuditAnswer *got = client(&world, "ListAudit", &list, &answer);
    for (size_t i = 0; i < got->n_entries; i++)
        if (strcmp(got->entries[i]->method, method) == 0)
            count++;
    answer_fini(&answer);
    return count;
}

/* The others are silent: their leases end, and hours pass. */
static void pass_hours(int hours)
{
    world_run(&world, 5000);
    world.now_ms += (int64_t)hours * HOUR_MS;
    world_run(&world, RETENTION_EVERY_MS + 5000);
}

Test(lost_nodes, are_forgotten_by_age_for_good_and_lists_tell_of_it)
{
    world.keep_nodes_ms = 2 * HOUR_MS;
    world_restart(&world);
    struct node_call n1 = {.name = "n1", .token = world.agent};
    struct node_call n2 = {.name = "n2", .token = world.agent};
    uint64_t version = 0, before;
    cr_assert_eq(join(&n1, NULL) + join(&n2, NULL), 0);
    cr_expect_str_eq(nodes_since(&version), "*n1 n2 ");
    pass_hours(1);
    cr_expect_str_eq(nodes_since(&version), "n1 n2 ", "they are lost");
    before = version;
    cr_assert_eq(beat(&n1, 1), 0);
    world.now_ms += HOUR_MS;
    cr_assert_eq(beat(&n1, 2), 0);
    world_run(&world, RETENTION_EVERY_MS + 5000);
    cr_assert_eq(beat(&n1, 3), 0);
    cr_expect_str_eq(nodes_since(&version), "n1 -n2 ");
    cr_expect_str_eq(nodes_since(&version), "");
    cr_expect_str_eq(nodes_since(&before), "n1 -n2 ");
    cr_expect_eq(audited("ForgetNode"), 1);
    cr_expect_eq(beat(&n2, 1), E_NOT_FOUND);
    world_restart(&world);
    version = 0;
    cr_expect_str_eq(nodes_since(&version), "*n1 ");
    cr_expect_eq(join(&n2, NULL), 0);
    cr_expect_str_eq(nodes_since(&version), "n2 ");
}

/* The node is forgotten while the change is being stored. */
Test(lost_nodes, one_that_is_forgotten_before_a_change_of_it_is_answered)
{
    Muster__SetNodeRequest message = MUSTER__SET_NODE_REQUEST__INIT;
    struct call call = {.service = &muster__coordinator__descriptor,
                        .method = "SetNode",
                        .message = &message.base,
                        .token = world.admin};
    struct answer answer = {0};
    world.keep_nodes_ms = HOUR_MS;
    world_restart(&world);
    struct node_call n1 = {.name = "n1", .token = world.agent};
    cr_assert_eq(join(&n1, NULL), 0);
    world_run(&world, 5000);
    message.name = "n1";
    message.action = "drain";
    call_now(&world, &call, &answer);
    cr_assert_eq(answer.err.code, 0, "%s", answer.err.text);
    answer_fini(&answer);
    answer = (struct answer){0};
    world.now_ms += (int64_t)2 * HOUR_MS;
    message.action = "uncordon";
    call_start(&world, &call, &answer);
    cr_assert_not(answer.done);
    world_run(&world, RETENTION_EVERY_MS);
    cr_assert(answer.done);
    cr_expect_eq(answer.err.code, E_NOT_FOUND, "%s", answer.err.text);
    cr_expect(strstr(answer.err.text, "node 'n1' was lost, and has been forgotten"), "%s",
              answer.err.text);
    answer_fini(&answer);
}

Test(lost_nodes, that_come_back_are_told_of_as_known)
{
    world.keep_nodes_ms = HOUR_MS;
    world_restart(&world);
    struct node_call n1 = {.name = "n1", .token = world.agent};
    uint64_t version = 0;
    cr_assert_eq(join(&n1, NULL), 0);
    (void)nodes_since(&version);
    uint64_t before = version;
    pass_hours(2);
    cr_expect_str_eq(nodes_since(&version), "-n1 ");
    cr_assert_eq(join(&n1, NULL), 0);
    cr_expect_str_eq(nodes_since(&version), "n1 ");
    cr_expect_str_eq(nodes_since(&before), "n1 ");
}

Test(lost_nodes, stay_while_the_wall_clock_is_in_doubt_or_the_disk_is_full)
{
    world.keep_nodes_ms = HOUR_MS;
    world_restart(&world);
    struct node_call n1 = {.name = "n1", .token = world.agent};
    uint64_t version = 0;
    cr_assert_eq(join(&n1, NULL), 0);
    world.wall_ahead_ms = 24 * HOUR_MS;
    pass_hours(0);
    cr_expect_str_eq(nodes_since(&version), "*n1 ", "the clock jumped");
    store_memory_fail_commits(world.store, 1000, E_RESOURCE_EXHAUSTED);
    pass_hours(2);
    version = 0;
    cr_expect_str_eq(nodes_since(&version), "*n1 ", "it cannot be stored");
    store_memory_fail_commits(world.store, 0, 0);
    pass_hours(0);
    pass_hours(0);
    cr_expect_str_eq(nodes_since(&version), "-n1 ");
}

static const struct store_token *entry(const char *key)
{
    return access_node(service_access(coordinator_service(world.coordinator)), key);
}

Test(lost_nodes, keys_of_forgotten_nodes_let_nothing_in_without_a_token)
{
    struct error err;
    world.keep_nodes_ms = HOUR_MS;
    world.pin = "0123456789abcdef";
    world_restart(&world);
    struct node_call n1 = {.name = "n1", .token = world.agent, .key = "key-of-n1", .peer = 5};
    cr_assert_eq(join(&n1, NULL), 0);
    n1.token = NULL;
    cr_assert_eq(join(&n1, NULL), 0, "its key identifies it");
    cr_assert_eq(beat(&n1, 1), 0);
    cr_assert(entry("key-of-n1"));
    struct answer polled;
    Muster__NodePollRequest poll = poll_message(0);
    struct call call = {.service = &muster__nodes__descriptor,
                        .method = "Poll",
                        .message = &poll.base,
                        .peer = 5,
                        .peer_key = "key-of-n1",
                        .timeout_ms = 10 * HOUR_MS};
    world_run(&world, 5000); /* it is lost: a change for its poll */
    call_now(&world, &call, &polled);
    poll = poll_message(((const Muster__NodePollAnswer *)polled.message)->version);
    answer_fini(&polled);
    call_start(&world, &call, &polled);
    pass_hours(2);
    cr_assert(polled.done);
    cr_expect_eq(polled.err.code, E_NOT_FOUND, "its poll ends: %s", polled.err.text);
    cr_expect_null(entry("key-of-n1"));
    cr_expect_eq(beat(&n1, 2), E_NOT_FOUND);
    cr_expect_eq(join(&n1, &err), E_UNAUTHENTICATED, "%s", err.text);
    n1.token = world.agent;
    cr_expect_eq(join(&n1, &err), 0, "%s", err.text);
    cr_expect_eq(beat(&n1, 3), 0);
    service_peer_gone(coordinator_service(world.coordinator), 5);
    pass_hours(2); /* its entry is freed: a sanitizer sees what still points to it */
    cr_expect_eq(join(&n1, &err), 0, "%s", err.text);
}

static void make_token(const char *name, char ret[TOKEN_TEXT_MAX])
{
    struct answer answer;
    Muster__CreateTokenRequest message = MUSTER__CREATE_TOKEN_REQUEST__INIT;
    message.name = (char *)(uintptr_t)name;
    message.role = "agent";
    const Muster__CreateTokenAnswer *got = client(&world, "CreateToken", &message, &answer);
    (void)str_copy(ret, TOKEN_TEXT_MAX, got->plain);
    ret[strcspn(ret, ".")] = 0; /* the cluster's pin is not sent */
    answer_fini(&answer);
}

static void rekey(const char *name)
{
    struct answer answer;
    Muster__SetNodeRequest message = MUSTER__SET_NODE_REQUEST__INIT;
    message.name = (char *)(uintptr_t)name;
    message.action = "rekey";
    client(&world, "SetNode", &message, &answer);
    answer_fini(&answer);
}

static void fill_share(const char *token)
{
    char name[NAME_LENGTH_MAX + 1];
    struct node_call node = {.name = name, .token = token, .key = name};
    for (int i = 0; i < MAX_TOKEN_NODES; i++) {
        (void)str_printf(name, sizeof(name), "junk%d", i);
        cr_assert_eq(join(&node, NULL), 0, "%s", name);
    }
}

Test(lost_nodes, one_token_does_not_fill_all_places_and_its_share_comes_back)
{
    char other[TOKEN_TEXT_MAX];
    struct error err;
    uint64_t version = 0;
    world.keep_nodes_ms = HOUR_MS;
    world.pin = "0123456789abcdef";
    world_restart(&world);
    make_token("other", other);
    fill_share(world.agent);
    struct node_call more = {.name = "more", .token = world.agent, .key = "more"};
    cr_assert_eq(join(&more, &err), E_RESOURCE_EXHAUSTED);
    cr_expect(strstr(err.text, "token_nodes") && strstr(err.hint, "muster token create"), "%s: %s",
              err.text, err.hint);
    struct node_call known = {.name = "junk0", .key = "junk0", .incarnation = 8};
    cr_expect_eq(join(&known, &err), 0, "%s", err.text);
    rekey("junk1");
    known = (struct node_call){.name = "junk1", .token = world.agent, .key = "new"};
    cr_expect_eq(join(&known, &err), 0, "it has a place already: %s", err.text);
    more.token = other;
    cr_expect_eq(join(&more, &err), 0, "another token has a share of its own: %s", err.text);
    struct node_call last = {.name = "last", .token = other, .key = "last"};
    cr_expect_eq(join(&last, &err), 0, "%s", err.text);
    (void)nodes_since(&version);
    pass_hours(2);
    cr_assert_eq(cluster_nodes_count(coordinator_cluster(world.coordinator)), 1, "a fence stays");
    cr_expect_str_eq(nodes_since(&version), "*junk1 ", "more than a list tells of: it is whole");
    more.token = world.agent;
    cr_expect_eq(join(&more, &err), 0, "%s", err.text);
    cr_expect_str_eq(nodes_since(&version), "more ");
}

Test(lost_nodes, shares_are_counted_over_restarts)
{
    struct node_call n1 = {.name = "n1", .token = world.agent};
    cr_assert_eq(join(&n1, NULL), 0);
    world_restart(&world);
    const struct cluster *cluster = coordinator_cluster(world.coordinator);
    const struct node *node = cluster_node(cluster, "n1");
    cr_assert_eq(strlen(node->let_in_by), TOKEN_ID_MAX);
}
