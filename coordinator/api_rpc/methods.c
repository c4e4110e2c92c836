/* Every method of every service: who may call it, and what serves it. */
#include "coordinator/api_rpc/service.h"
#include "coordinator/api_rpc/service_internal.h"

enum { WRITERS = ACCESS_ADMIN | ACCESS_MEMBER, KEEPERS = ACCESS_ADMIN | ACCESS_OPERATOR };

/* clang-format off */
const struct service_method service_methods[] = {
    /* service, name, who may call, read, or change and done */
    {"Coordinator", "Version", 0, .read = call_version},
    {"Coordinator", "WhoAmI", ACCESS_READERS, .read = call_who_am_i},
    {"Coordinator", "SubmitJob", WRITERS, .change = call_submit_job, .done = done_job},
    {"Coordinator", "GetJob", ACCESS_READERS, .read = call_get_job},
    {"Coordinator", "WatchJob", ACCESS_READERS, .read = call_watch_job},
    {"Coordinator", "ListJobs", ACCESS_READERS, .read = call_list_jobs},
    {"Coordinator", "CancelJob", WRITERS, .change = call_cancel_job, .done = done_job},
    {"Coordinator", "ScaleJob", WRITERS, .change = call_scale_job, .done = done_job},
    {"Coordinator", "WhyJob", ACCESS_READERS, .read = call_why_job},
    {"Coordinator", "Plan", ACCESS_READERS, .read = call_plan},
    {"Coordinator", "GetLogs", ACCESS_READERS, .read = call_get_logs},
    {"Coordinator", "GetMetrics", ACCESS_READERS, .read = call_get_metrics},
    {"Coordinator", "ListCheckpoints", ACCESS_READERS, .read = call_list_checkpoints},
    {"Coordinator", "ListEvents", ACCESS_READERS, .read = call_list_events},
    {"Coordinator", "ListNodes", ACCESS_READERS, .read = call_list_nodes},
    {"Coordinator", "SetNode", KEEPERS, .change = call_set_node, .done = done_set_node},
    {"Coordinator", "ListTenants", ACCESS_READERS, .read = call_list_tenants},
    {"Coordinator", "SetTenant", ACCESS_ADMIN,
     .change = call_set_tenant, .written = written_tenant},
    {"Coordinator", "ListTokens", ACCESS_ADMIN, .read = call_list_tokens},
    {"Coordinator", "CreateToken", ACCESS_ADMIN,
     .change = call_create_token, .written = written_new_token},
    {"Coordinator", "RevokeToken", ACCESS_ADMIN,
     .change = call_revoke_token, .written = written_token},
    {"Coordinator", "ListAudit", ACCESS_ADMIN, .read = call_list_audit},
    {"Coordinator", "Backup", ACCESS_ADMIN, .change = call_backup},
    {"Coordinator", "Replay", ACCESS_ADMIN, .read = call_replay},
    {"Nodes", "RegisterNode", ACCESS_AGENT,
     .change = call_register_node, .done = done_register_node},
    {"Nodes", "Report", ACCESS_AGENT, .change = call_report, .done = done_report},
    {"Nodes", "Poll", ACCESS_AGENT, .read = call_poll},
    {"Nodes", "CommitCheckpoint", ACCESS_AGENT,
     .change = call_commit_checkpoint, .done = done_commit_checkpoint},
    {"Nodes", "Board", ACCESS_AGENT, .read = call_board},
    {.name = NULL},
};
/* clang-format on */
