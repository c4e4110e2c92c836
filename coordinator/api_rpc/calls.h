/* The functions that serve the methods, for the table in methods.c only. Loop thread only. */
#ifndef API_RPC_CALLS_H
#define API_RPC_CALLS_H

#include "coordinator/api_rpc/method.h"

/* job_calls.c */
void call_submit_job(struct service *, struct service_call *, const struct service_request *);
void call_cancel_job(struct service *, struct service_call *, const struct service_request *);
void call_take_stacks(struct service *, struct service_call *, const struct service_request *);
void call_scale_job(struct service *, struct service_call *, const struct service_request *);
void done_job(struct service *, struct service_call *, const struct action *);
void call_get_job(struct service *, struct service_call *, bool last_chance);
void call_watch_job(struct service *, struct service_call *, bool last_chance);
void call_list_jobs(struct service *, struct service_call *, bool last_chance);
void call_why_job(struct service *, struct service_call *, bool last_chance);
void call_list_checkpoints(struct service *, struct service_call *, bool last_chance);

/* channel_calls.c */
void call_open_channel(struct service *, struct service_call *, const struct service_request *);
void done_channel(struct service *, struct service_call *, const struct action *);
void call_send_channel(struct service *, struct service_call *, bool last_chance);
void call_receive_channel(struct service *, struct service_call *, bool last_chance);
void call_list_channels(struct service *, struct service_call *, bool last_chance);

/* terminal_calls.c */
void call_send_terminal(struct service *, struct service_call *, bool last_chance);
void call_receive_terminal(struct service *, struct service_call *, bool last_chance);

/* rank_calls.c */
void call_get_ranks(struct service *, struct service_call *, bool last_chance);

/* overview_call.c */
void call_overview(struct service *, struct service_call *, bool last_chance);

/* plan_call.c */
void call_plan(struct service *, struct service_call *, bool last_chance);

/* view_calls.c */
void call_version(struct service *, struct service_call *, bool last_chance);
void call_get_logs(struct service *, struct service_call *, bool last_chance);
void call_get_metrics(struct service *, struct service_call *, bool last_chance);
void call_list_events(struct service *, struct service_call *, bool last_chance);
void call_set_node(struct service *, struct service_call *, const struct service_request *);
void done_set_node(struct service *, struct service_call *, const struct action *);

/* node_list.c */
void call_list_nodes(struct service *, struct service_call *, bool last_chance);

/* access_calls.c */
void call_who_am_i(struct service *, struct service_call *, bool last_chance);
void call_list_tenants(struct service *, struct service_call *, bool last_chance);
void call_set_tenant(struct service *, struct service_call *, const struct service_request *);
void written_tenant(struct service *, struct service_call *);
void call_list_tokens(struct service *, struct service_call *, bool last_chance);
void call_create_token(struct service *, struct service_call *, const struct service_request *);
void written_new_token(struct service *, struct service_call *);
void call_revoke_token(struct service *, struct service_call *, const struct service_request *);
void written_token(struct service *, struct service_call *);
void call_list_audit(struct service *, struct service_call *, bool last_chance);

/* secret_calls.c */
void call_list_secrets(struct service *, struct service_call *, bool last_chance);
void call_set_secret(struct service *, struct service_call *, const struct service_request *);
void call_remove_secret(struct service *, struct service_call *, const struct service_request *);
void written_secret(struct service *, struct service_call *);
void call_rekey_secrets(struct service *, struct service_call *, const struct service_request *);
void written_rekey(struct service *, struct service_call *);

/* backup_call.c */
void call_backup(struct service *, struct service_call *, const struct service_request *);

/* replay.c */
void call_replay(struct service *, struct service_call *, bool last_chance);

/* node_calls.c */
void call_register_node(struct service *, struct service_call *, const struct service_request *);
void done_register_node(struct service *, struct service_call *, const struct action *);
void call_report(struct service *, struct service_call *, const struct service_request *);
void done_report(struct service *, struct service_call *, const struct action *);
void call_commit_checkpoint(struct service *, struct service_call *,
                            const struct service_request *);
void done_commit_checkpoint(struct service *, struct service_call *, const struct action *);
void call_board(struct service *, struct service_call *, bool last_chance);

/* poll_calls.c */
void call_poll(struct service *, struct service_call *, bool last_chance);

#endif
