/* What is known of a connection, found by its data as over TCP, by its number as in simulation. */
#include <stdlib.h>

#include <criterion/criterion.h>

#include "coordinator/api_rpc/connection.h"

static struct connections connections;
static const struct agent_link *link;

static void fini(void)
{
    connections_fini(&connections);
}

TestSuite(connection, .fini = fini, .timeout = 20);

static void drop(uint64_t peer)
{
    link = NULL;
    struct connection *gone = connection_remove(&connections, peer, &link);
    cr_assert(gone);
    free(gone);
}

Test(connection, is_found_by_its_note_without_a_lookup)
{
    void *data = NULL, *other = NULL;
    cr_assert_null(connection_find(&connections, 7, &data));
    struct connection *made = connection_get(&connections, 7, &data);
    cr_assert_eq(data, made);
    cr_assert_eq(connection_find(&connections, 7, &data), made);
    cr_assert_eq(connection_get(&connections, 7, &data), made);
    cr_assert_null(connection_find(&connections, 8, &other),
                   "another connection has data of its own");
    drop(7);
    cr_assert_null(connection_find(&connections, 7, NULL));
}

Test(connection, without_a_note_is_found_by_its_number)
{
    struct connection *made = connection_get(&connections, 7, NULL);
    cr_assert(made);
    cr_assert_eq(connection_find(&connections, 7, NULL), made);
    cr_assert_null(connection_find(&connections, 8, NULL));
    cr_assert_null(connection_get(&connections, 0, NULL), "0 is no connection");
}

Test(connection, that_speaks_for_a_node_now_takes_it_from_the_one_before)
{
    struct connection *old = connection_get(&connections, 1, NULL);
    struct connection *new = connection_get(&connections, 2, NULL);
    connection_link(&connections, old, "a", 10);
    connection_link(&connections, new, "a", 11);
    drop(1);
    cr_assert_null(link, "the node has another connection");
    drop(2);
    cr_assert_str_eq(link->node, "a");
    cr_assert_eq(link->incarnation, 11);
    cr_assert_null(link->connection);
}

Test(connection, that_speaks_for_another_node_lets_the_first_one_go)
{
    struct connection *both = connection_get(&connections, 1, NULL);
    connection_link(&connections, both, "a", 10);
    connection_link(&connections, both, "b", 20);
    drop(1);
    cr_assert_str_eq(link->node, "b");
    struct connection *next = connection_get(&connections, 2, NULL);
    connection_link(&connections, next, "a", 12);
    drop(2);
    cr_assert_str_eq(link->node, "a");
    cr_assert_eq(link->incarnation, 12);
}
