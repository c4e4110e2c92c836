/* The audit trail: changes and attempts leave a trace, repeats and secrets do not. */
#include <criterion/criterion.h>
#include <string.h>

#include "coordinator/api_rpc/audit_fold.h"
#include "tests/unit/coordinator_api/access_world.h"

TestSuite(audit, .init = access_init, .fini = access_fini);

Test(audit, changes_and_attempts_leave_a_trace)
{
    struct store_audit entry, later;
    struct error err;
    newest_entry(&entry);
    cr_assert_str_eq(entry.method, "SubmitJob");
    cr_assert_str_eq(entry.token_name, "blue");
    cr_assert_str_eq(entry.tenant, "blue");
    cr_assert_str_eq(entry.object, made.blue_job);
    cr_assert_str_eq(entry.result, "OK");
    cr_assert_str_eq(entry.text, "blue-secret");
    Muster__CancelJobRequest cancel = MUSTER__CANCEL_JOB_REQUEST__INIT;
    cancel.id = made.blue_job;
    refusal("CancelJob", &cancel, made.red, &err);
    newest_entry(&later);
    cr_assert_eq(later.seq, entry.seq + 1);
    cr_assert_str_eq(later.token_name, "red");
    cr_assert_str_eq(later.object, made.blue_job);
    cr_assert_str_eq(later.result, "NOT_FOUND");
    refusal("CancelJob", &cancel, made.viewer, &err);
    newest_entry(&later);
    cr_assert_str_eq(later.result, "PERMISSION_DENIED");
    Muster__SetNodeRequest node = MUSTER__SET_NODE_REQUEST__INIT;
    node.name = "n1";
    node.action = "cordon";
    node.reason = "fans";
    cr_assert_eq(refusal("SetNode", &node, made.operator, & err), 0);
    newest_entry(&later);
    cr_assert_str_eq(later.token_name, "operator");
    cr_assert_str_eq(later.object, "n1");
    cr_assert_str_eq(later.text, "cordon: fans");
    uint64_t before = later.seq;
    world_restart(&world);
    newest_entry(&later);
    cr_assert_eq(later.seq, before, "reading leaves no trace, and a restart loses none");
}

Test(audit, a_repeated_submit_is_one_change_and_its_key_is_the_tenants_own)
{
    struct answer first, second;
    struct store_audit before, after;
    submit_true("again", made.red, "k", &first);
    newest_entry(&before);
    submit_true("again", made.red, "k", &second);
    newest_entry(&after);
    cr_assert_str_eq(((Muster__Job *)first.message)->id, ((Muster__Job *)second.message)->id);
    cr_assert_eq(before.seq, after.seq);
    answer_fini(&first);
    answer_fini(&second);
}

static void see_entries(void *arg, const struct store_audit *entry)
{
    const char *plain = arg;
    cr_assert_null(strstr(entry->text, plain), "the audit trail holds a token");
    cr_assert_null(strstr(entry->object, plain), "the audit trail holds a token");
    cr_assert_null(strstr(entry->text, "mst_"), "the audit trail holds a token");
}

Test(audit, secrets_never_reach_the_audit_trail)
{
    char plain[TOKEN_MAX];
    make_token("ci", "member", "red", plain);
    struct store_events_query query = {.limit = STORE_AUDIT_PAGE_MAX};
    cr_assert_eq(world.store->verbs->list_audit(world.store, &query, see_entries, plain, NULL), 0);
}

Test(audit, repeats_are_one_entry_with_their_count_when_the_minute_is_over)
{
    enum { ASKED = 6 };
    struct store_audit first, later;
    struct error err;
    Muster__CancelJobRequest cancel = MUSTER__CANCEL_JOB_REQUEST__INIT;
    cancel.id = made.blue_job;
    refusal("CancelJob", &cancel, made.red, &err);
    newest_entry(&first);
    for (int i = 1; i < ASKED; i++)
        refusal("CancelJob", &cancel, made.red, &err);
    newest_entry(&later);
    cr_assert_eq(later.seq, first.seq, "a repeat has no entry of its own");
    world_run(&world, AUDIT_FOLD_MS + 1000);
    newest_entry(&later);
    cr_assert_eq(later.seq, first.seq + 1);
    cr_assert_str_eq(later.method, "CancelJob");
    cr_assert(strncmp(later.text, "5 more", 6) == 0, "its count: %s", later.text);
    refusal("CancelJob", &cancel, made.red, &err);
    newest_entry(&later);
    cr_assert_eq(later.seq, first.seq + 2, "the next minute begins with an entry");
}
