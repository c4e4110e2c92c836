/* Places and turns of callers. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "coordinator/api_rpc/access.h"
#include "coordinator/api_rpc/budget.h"

static struct budgets budgets;

static void open_budgets(void)
{
    budgets_init(&budgets);
}

static void close_budgets(void)
{
    budgets_fini(&budgets);
}

TestSuite(budget, .init = open_budgets, .fini = close_budgets);

static struct store_token token(const char *role, const char *tenant)
{
    struct store_token ret = {0};
    snprintf(ret.role, sizeof(ret.role), "%s", role);
    snprintf(ret.tenant, sizeof(ret.tenant), "%s", tenant);
    return ret;
}

static struct budget_ask ask_of(const struct store_token *caller)
{
    return (struct budget_ask){.caller = caller, .role = access_role(caller->role)};
}

/* Opens calls until one is refused; how many were opened. */
static int fill(const struct budget_ask *ask, struct budget **ret, struct error *err)
{
    int count = 0;
    struct budget *one;
    while ((one = budget_open(&budgets, ask, err))) {
        *ret = one;
        count++;
    }
    return count;
}

static void empty(struct budget *caller, int count, bool plan)
{
    while (count-- > 0)
        budget_close(&budgets, caller, plan);
}

Test(budget, each_token_has_its_own_places_and_is_told_which_limit_it_met)
{
    struct store_token red = token("viewer", "red"), blue = token("viewer", "blue");
    struct budget_ask ask = ask_of(&red), other = ask_of(&blue);
    struct budget *caller = NULL, *second;
    struct error err = {0};
    cr_assert_eq(fill(&ask, &caller, &err), MAX_VIEWER_CALLS);
    cr_assert_eq(err.code, E_RESOURCE_EXHAUSTED);
    cr_assert(strstr(err.text, "viewer_calls") && strstr(err.text, "256"), "%s", err.text);
    cr_assert(*err.hint);
    cr_assert_eq(budgets.refused[LIMIT_VIEWER_CALLS], 1);
    cr_assert(second = budget_open(&budgets, &other, &err));
    empty(second, 1, false);
    empty(caller, MAX_VIEWER_CALLS, false);
    cr_assert_eq(budgets.callers.count, 0);
}

Test(budget, tokens_of_one_tenant_share_its_places)
{
    struct store_token tokens[9];
    struct budget *callers[9];
    struct error err = {0};
    int opened = 0, of[9];
    for (int i = 0; i < 9; i++) {
        tokens[i] = token("viewer", "red");
        struct budget_ask ask = ask_of(&tokens[i]);
        opened += of[i] = fill(&ask, &callers[i], &err);
    }
    cr_assert_eq(opened, MAX_TENANT_CALLS);
    cr_assert(strstr(err.text, "tenant_calls"), "%s", err.text);
    struct store_token admin = token("admin", ""), agent = token("agent", "");
    struct budget_ask ask = ask_of(&admin);
    cr_assert_eq(budget_check(&budgets, &ask, &err), 0);
    ask = ask_of(&agent);
    cr_assert_eq(budget_check(&budgets, &ask, &err), 0);
    for (int i = 0; i < 9; i++)
        empty(callers[i], of[i], false);
}

Test(budget, what_an_agent_passes_on_leaves_its_own_calls_room)
{
    struct store_token agent = token("agent", "");
    struct budget_ask ask = ask_of(&agent);
    struct budget *caller = NULL;
    struct error err = {0};
    ask.peer = 7;
    ask.forwarded = true;
    cr_assert_eq(fill(&ask, &caller, &err), MAX_AGENT_FORWARDS);
    ask.forwarded = false;
    cr_assert_eq(budget_check(&budgets, &ask, &err), 0);
    empty(caller, MAX_AGENT_FORWARDS, false);
}

Test(budget, a_node_has_its_places_once_however_often_it_connects)
{
    struct store_token node = token("agent", "");
    struct budget_ask ask = ask_of(&node);
    struct budget *caller = NULL;
    struct error err = {0};
    ask.node = true;
    ask.peer = 1;
    cr_assert_eq(fill(&ask, &caller, &err), MAX_AGENT_CALLS);
    ask.peer = 2;
    cr_assert_eq(budget_check(&budgets, &ask, &err), E_RESOURCE_EXHAUSTED);
    ask.node = false;
    cr_assert_eq(budget_check(&budgets, &ask, &err), 0);
    empty(caller, MAX_AGENT_CALLS, false);
}

Test(budget, plans_have_a_limit_of_their_own)
{
    struct store_token viewer = token("viewer", "red");
    struct budget_ask ask = ask_of(&viewer);
    struct budget *caller = NULL;
    struct error err = {0};
    ask.plan = true;
    cr_assert_eq(fill(&ask, &caller, &err), MAX_PLAN_CALLS);
    ask.plan = false;
    cr_assert_eq(budget_check(&budgets, &ask, &err), 0);
    empty(caller, MAX_PLAN_CALLS, true);
}

Test(budget, a_turn_serves_one_of_each_caller_in_rotation)
{
    struct store_token tokens[3] = {token("viewer", "red"), token("admin", ""), token("agent", "")};
    struct budget_ready calls[3][2];
    struct budget *callers[3];
    struct error err = {0};
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 2; j++) {
            struct budget_ask ask = ask_of(&tokens[i]);
            callers[i] = budget_open(&budgets, &ask, &err);
            calls[i][j] = (struct budget_ready){0};
            budget_ready(&budgets, callers[i], &calls[i][j]);
        }
    budgets_begin(&budgets);
    const struct budget_ready *order[] = {&calls[2][0], &calls[0][0], &calls[2][1],
                                          &calls[1][0], &calls[0][1], &calls[1][1]};
    for (int i = 0; i < 6; i++)
        cr_assert_eq(budgets_next(&budgets, 0), order[i], "%d", i);
    cr_assert_null(budgets_next(&budgets, 0));
    cr_assert_eq(budgets_end(&budgets, 0), INT64_MAX);
    for (int i = 0; i < 3; i++)
        empty(callers[i], 2, false);
}

Test(budget, what_becomes_ready_in_a_turn_and_what_had_no_time_is_for_the_next)
{
    struct store_token admin = token("admin", "");
    struct budget_ask ask = ask_of(&admin);
    struct budget_ready first = {0}, second = {0};
    struct error err = {0};
    struct budget *caller = budget_open(&budgets, &ask, &err);
    budget_ready(&budgets, caller, &first);
    budgets_begin(&budgets);
    cr_assert_eq(budgets_next(&budgets, 0), &first);
    budget_ready(&budgets, caller, &second);
    cr_assert_null(budgets_next(&budgets, 0));
    cr_assert_eq(budgets_end(&budgets, 5), 5);
    budgets_begin(&budgets); /* and its time is over at once */
    cr_assert_eq(budgets_end(&budgets, 6), 6);
    budgets_begin(&budgets);
    cr_assert_eq(budgets_next(&budgets, 7), &second);
    cr_assert_eq(budgets_end(&budgets, 7), INT64_MAX);
    empty(caller, 1, false);
}

Test(budget, plans_use_half_of_the_time_at_most)
{
    struct store_token viewer = token("viewer", "red"), admin = token("admin", "");
    struct budget_ask ask = ask_of(&viewer), other = ask_of(&admin);
    struct budget_ready plans[2] = {{.plan = true}, {.plan = true}}, read = {0};
    struct error err = {0};
    struct budget *caller = budget_open(&budgets, &ask, &err);
    struct budget *reader = budget_open(&budgets, &other, &err);
    budget_ready(&budgets, caller, &plans[0]);
    budget_ready(&budgets, caller, &plans[1]);
    budgets_begin(&budgets);
    cr_assert_eq(budgets_next(&budgets, 100), &plans[0]);
    budgets_planned(&budgets, 100, 117);
    budget_ready(&budgets, reader, &read);
    cr_assert_null(budgets_next(&budgets, 117));
    cr_assert_eq(budgets_end(&budgets, 117), 117); /* the read does not wait for it */
    budgets_begin(&budgets);
    cr_assert_eq(budgets_next(&budgets, 117), &read);
    cr_assert_null(budgets_next(&budgets, 117));
    cr_assert_eq(budgets_end(&budgets, 117), 134);
    budgets_begin(&budgets);
    cr_assert_eq(budgets_next(&budgets, 134), &plans[1]);
    empty(caller, 1, false);
    empty(reader, 1, false);
}
