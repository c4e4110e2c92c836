/* The service's own state, which the files of api_rpc/ share, and its clock and cluster. Nothing
 * outside api_rpc/ includes this. Owned by the coordinator's object; loop thread only. */
#ifndef API_RPC_SERVICE_STATE_H
#define API_RPC_SERVICE_STATE_H

#include <stdint.h>

#include "common/base/map.h"
#include "common/loop/loop.h"
#include "coordinator/api_rpc/access.h"
#include "coordinator/api_rpc/audit_fold.h"
#include "coordinator/api_rpc/board.h"
#include "coordinator/api_rpc/budget.h"
#include "coordinator/api_rpc/connection.h"
#include "coordinator/api_rpc/open_call.h"
#include "coordinator/api_rpc/rank_figures.h"
#include "coordinator/api_rpc/secrets.h"
#include "coordinator/api_rpc/service_host.h"
#include "coordinator/model/cluster.h"
#include "coordinator/relay/relay.h"
#include "coordinator/store/kept.h"
#include "coordinator/store/logs.h"
#include "coordinator/store/meta.h"
#include "coordinator/store/metrics.h"

struct quota_rates;

struct service {
    struct service_options options;
    const struct service_method *methods; /* the table; ends with a NULL name */
    char *data_dir;
    char version[64], commit[64], cluster_id[STORE_META_VALUE_MAX + 1];
    char pin[TOKEN_PIN_LENGTH + 1];
    uint64_t poll_epoch; /* high half of Poll versions: no other start has the same */
    uint64_t next_id;
    struct map calls; /* by id */
    struct access *access;
    struct loop_timer backup; /* next step of the running backup */
    uint64_t backup_call;     /* the request that waits for it; 0 = no backup is running */
    struct loop_timer uses;   /* armed while uses of tokens are not stored */
    bool uses_armed;
    struct strmap waiting; /* key (service_wait.c) -> struct list of calls */
    struct budgets budgets;
    struct loop_timer again; /* armed while calls are ready and the loop would otherwise be idle */
    struct connections connections;
    struct strmap specs;        /* job id -> Muster__JobSpec: specs never change */
    struct strmap late_outputs; /* id of an ended job -> struct late_output (output_end.c) */
    struct strmap had; /* "job node" -> whether the node had a worker of the job (reporter.c) */
    struct logs *logs;
    struct metrics *metrics;
    struct kept *kept;
    struct audit_folds *audit_folds;
    struct loop_timer audit_minute;
    struct {
        int64_t next_ms; /* no line about a refused node is logged before */
        int64_t left_out;
    } join_log;
    struct quota_rates *quota_rates;
    struct secrets *secrets;
    struct board *board;
    struct rank_figures *figures;
    struct relay *relay;
    struct loop_timer channels; /* armed while there are any */
    struct strmap nodes_shown;  /* name -> struct node_shown (node_list.c) */
    struct list nodes_gone;     /* of those, the ones no longer known, by version */
    uint64_t nodes_gone_above;  /* older ones are not remembered: their readers get a whole list */
    int nodes_gone_count;
    uint64_t nodes_comparisons;
    bool nodes_unswept;     /* entries of nodes may be freed (service_nodes.c), */
    int64_t nodes_sweep_ms; /* no earlier than this */
    uint64_t nodes_version; /* of the newest change; its high half is poll_epoch's */
    bool nodes_settled;     /* nothing has stepped since they were compared */
    struct service_stats stats;
    void (*on_change)(void *arg);
    void *on_change_arg;
};

const struct cluster *service_cluster(struct service *service);
int64_t service_now_ms(const struct service *service); /* constant during a turn of the loop */
int64_t service_wall_ms(const struct service *service);

#endif
