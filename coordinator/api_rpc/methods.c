/* Every method of every service: the roles that may call it, and the function that serves it. */
#include "coordinator/api_rpc/access.h"
#include "coordinator/api_rpc/calls.h"
#include "coordinator/api_rpc/method.h"

enum { WRITERS = ACCESS_ADMIN | ACCESS_MEMBER, KEEPERS = ACCESS_ADMIN | ACCESS_OPERATOR };

/* clang-format off */
const struct service_method service_methods[] = {
    /* service, name, in words, who may call, read, or change and done */
    {"Coordinator", "Version", "asking for the version", 0, .read = call_version},
    {"Coordinator", "WhoAmI", "asking who one is", ACCESS_READERS, .read = call_who_am_i},
    {"Coordinator", "SubmitJob", "submitting a job", WRITERS,
     .change = call_submit_job, .done = done_job, .has_spec = true},
    {"Coordinator", "GetJob", "looking at a job", ACCESS_READERS, .read = call_get_job},
    {"Coordinator", "WatchJob", "following a job", ACCESS_READERS, .read = call_watch_job},
    {"Coordinator", "ListJobs", "listing jobs", ACCESS_READERS, .read = call_list_jobs},
    {"Coordinator", "Overview", "looking at the cluster", ACCESS_READERS, .read = call_overview},
    {"Coordinator", "CancelJob", "cancelling a job", WRITERS,
     .change = call_cancel_job, .done = done_job},
    {"Coordinator", "ScaleJob", "scaling a job", WRITERS,
     .change = call_scale_job, .done = done_job},
    {"Coordinator", "WhyJob", "asking why", ACCESS_READERS, .read = call_why_job},
    {"Coordinator", "Plan", "planning", ACCESS_READERS, .read = call_plan,
     .has_spec = true, .plans = true},
    {"Coordinator", "GetLogs", "reading logs", ACCESS_READERS, .read = call_get_logs},
    {"Coordinator", "GetMetrics", "reading metrics", ACCESS_READERS, .read = call_get_metrics},
    {"Coordinator", "ListCheckpoints", "listing checkpoints", ACCESS_READERS,
     .read = call_list_checkpoints},
    {"Coordinator", "ListEvents", "reading events", ACCESS_READERS, .read = call_list_events},
    {"Coordinator", "ListNodes", "listing nodes", ACCESS_READERS, .read = call_list_nodes},
    {"Coordinator", "SetNode", "cordoning, draining or uncordoning a node", KEEPERS,
     .change = call_set_node, .done = done_set_node},
    {"Coordinator", "ListTenants", "listing tenants", ACCESS_READERS, .read = call_list_tenants},
    {"Coordinator", "SetTenant", "changing a tenant", ACCESS_ADMIN,
     .change = call_set_tenant, .written = written_tenant},
    {"Coordinator", "ListTokens", "listing tokens", ACCESS_ADMIN, .read = call_list_tokens},
    {"Coordinator", "CreateToken", "creating a token", ACCESS_ADMIN,
     .change = call_create_token, .written = written_new_token},
    {"Coordinator", "RevokeToken", "revoking a token", ACCESS_ADMIN,
     .change = call_revoke_token, .written = written_token},
    {"Coordinator", "ListAudit", "reading the audit log", ACCESS_ADMIN, .read = call_list_audit},
    {"Coordinator", "ListSecrets", "listing secrets", ACCESS_READERS, .read = call_list_secrets},
    {"Coordinator", "SetSecret", "setting a secret", WRITERS,
     .change = call_set_secret, .written = written_secret, .has_spec = true},
    {"Coordinator", "RemoveSecret", "removing a secret", WRITERS,
     .change = call_remove_secret, .written = written_secret},
    {"Coordinator", "RekeySecrets", "sealing secrets with a new key", ACCESS_ADMIN,
     .change = call_rekey_secrets, .written = written_rekey},
    {"Coordinator", "Backup", "a backup", ACCESS_ADMIN, .change = call_backup},
    {"Coordinator", "Replay", "replaying the past", ACCESS_ADMIN, .read = call_replay},
    {"Nodes", "RegisterNode", "bringing a node", ACCESS_AGENT,
     .change = call_register_node, .done = done_register_node, .agent_audited = AUDIT_ALL},
    {"Nodes", "Report", "reporting as a node", ACCESS_AGENT,
     .change = call_report, .done = done_report},
    {"Nodes", "Poll", "asking for work as a node", ACCESS_AGENT, .read = call_poll},
    {"Nodes", "CommitCheckpoint", "committing a checkpoint", ACCESS_AGENT,
     .change = call_commit_checkpoint, .done = done_commit_checkpoint, .forwarded = true,
     .agent_audited = AUDIT_REFUSED},
    {"Nodes", "Board", "using a job's board", ACCESS_AGENT, .read = call_board, .forwarded = true},
    {.name = NULL},
};
/* clang-format on */
