/* One cluster of the simulated world: a coordinator, nodes, a client with a workload, and what is
 * checked while they live through faults. */
#ifndef SIM_STAGE_H
#define SIM_STAGE_H

#include "agent/core/launch.h"
#include "coordinator/coordinator.h"
#include "coordinator/core/invariant.h"
#include "tests/sim/process.h"

enum { SIM_USES_MAX = 3 }; /* tenants with jobs */

struct sim_job {                    /* of the client's workload */
    char key[32], name[32], id[32]; /* id: acknowledged, "" = not yet */
    struct script script;
    int nodes_min, nodes_max, spares, workers;
    const char *elastic;
    int priority;
    const char *tenant;
    char refusal[128];                           /* what the last refused submit was told */
    int max_runtime_s;                           /* 0 = none */
    int64_t submit_at_ms, cancel_at_ms;          /* 0 = never */
    bool cancel_acknowledged, asking, forgotten; /* forgotten: it ended, and went */
    /* Newest checkpoint the coordinator said yes to: of the latest generation, which may have gone
     * on from a step before an earlier one's. */
    uint64_t acknowledged_step, acknowledged_generation;
    char ended[16]; /* the state it was seen to end in */
    /* as of the last turn */
    uint64_t generation, checkpoint_step, checkpoint_generation;
    bool broken;
    bool holds; /* nodes; so long in all: */
    int64_t held_ms, held_seen_ms;
    int64_t ledger_ms, ledger_seen_ms;
    bool ledger_closed;
    uint64_t best_step, redone; /* what its ranks really did */
    bool paused;                /* as its script says */
    int fixed_nodes;            /* of its first gang, 0 = none yet */
    int64_t since_ms;           /* its gang of since_generation, 0 = not known */
    uint64_t since_generation;
    bool grows;   /* it starts again to grow */
    bool resizes; /* or to have the size that was asked for */
};

struct sim_tenant { /* set by the client at the start */
    const char *name;
    int weight, guaranteed, limit;
    bool set, asking, exists;
    int limit_seen, most; /* slots: the limit when last looked at, and what may be used since */
};

struct sim_use { /* what a tenant was charged when it was looked at, and the slots it held */
    double use;
    int64_t seen_ms;
    int slots;
};

struct sim_change { /* of a node, job or tenant, by an operator */
    int object;
    int a, b; /* what to: 0 uncordon, 1 cordon, 2 drain; nodes min, max; weight, slots */
    int64_t since_ms;
    bool open, asking, holds; /* holds: it was answered with yes */
};

struct sim_operators {
    struct rng rng;
    const char *url;
    struct sim_change nodes[SIM_NODES_MAX], jobs[SIM_JOBS_MAX], tenants[SIM_TENANTS_MAX];
    enum { SIM_TOKEN_NONE, SIM_TOKEN_MADE, SIM_TOKEN_GOING, SIM_TOKEN_REVOKED } token_state;
    int token_number, token_uses;
    bool token_asking;
    int64_t token_asked_ms, revoke_at_ms, token_refused_from_ms; /* refused: 0 = not yet */
    struct rpc_client *token_client;
};

struct membership_seen { /* what the ranks of one generation were told: all the same */
    char job[32];
    uint64_t generation;
    uint64_t digest;
    uint64_t base_step; /* where it went on from */
    bool has_base;
};

struct sim_backup; /* backup.c */

struct stage {
    struct world *world;
    struct sim_node nodes[SIM_NODES_MAX];
    int nodes_count;
    struct program *coordinator_program;
    struct coordinator *coordinator;
    int64_t coordinator_since_ms;
    struct store *store;
    struct invariant_memory *memory;
    uint64_t stored_checkpoints;
    struct program *client_program;
    struct rpc_client *client;
    struct sim_job jobs[SIM_JOBS_MAX];
    int jobs_count;
    struct sim_tenant tenants[SIM_TENANTS_MAX];
    struct sim_use uses[SIM_USES_MAX];
    struct sim_operators *operators;
    struct sim_backup *backup;
    const struct cluster *looked_at; /* the cluster of the last turn: another one was read back */
    struct membership_seen *memberships;
    int memberships_count, memberships_capacity;
    struct sim_node *doomed; /* goes down once and never comes back; NULL = none */
    bool doomed_down;
    bool store_lost; /* no coordinator starts until it is restored */
    bool calm;       /* faults are over */
    int keep_jobs;   /* by the coordinator; 0 = so many that none goes */
    int64_t keep_ms;
    int64_t keep_nodes_ms; /* lost ones; 0 = so long that none goes */
    struct sim_known {     /* a node as of the last turn */
        bool known, set_aside;
        int64_t seen_wall_ms;
    } known[SIM_NODES_MAX];
    /* what happened, for the summary */
    int coordinator_crashes, agent_crashes, node_losses, cuts, kills, store_failures;
    int restores, hangs, stalls, clock_jumps, disk_failures, changes, forgotten, nodes_forgotten;
};

const char *stage_url(void); /* of the coordinator */
void stage_init(struct stage *stage, struct world *world);
bool stage_is_large(const struct world *world); /* many nodes and jobs: gangs for which many give */
void stage_fini(struct stage *stage);
void stage_start_coordinator(struct stage *stage);
void stage_crash_coordinator(struct stage *stage);
void stage_start_agent(struct stage *stage, struct sim_node *node);
void stage_crash_agent(struct stage *stage, struct sim_node *node, bool machine);
bool stage_all_ended(const struct stage *stage);
void stage_describe(const struct stage *stage, char *ret, size_t size); /* what has not ended */

/* workload.c */
void workload_init(struct stage *stage);
struct sim_job *workload_job(struct stage *stage, const char *id);

/* faults.c */
void faults_init(struct stage *stage, int64_t until_ms);
/* A node is often drained because it fails: after each turn, every third worker that others are to
 * replace there dies before they are ready. Without a chance of its own, so that worlds stay. */
void faults_strike_left(struct stage *stage, const struct cluster *cluster);

/* past.c: once all has ended */
void stage_check_past(struct stage *stage);

/* sizes.c */
void sizes_check(struct stage *stage, const struct cluster *cluster);

/* told.c: once all has ended */
void stage_check_told(struct stage *stage);

/* backup.c: backups are taken until then, and now and then the disk is lost with the store */
void backup_init(struct stage *stage, int64_t until_ms);
/* No number of a job that is forgotten by a restore is given to another. */
void backup_check(struct stage *stage, const struct cluster *cluster);

/* keeping.c: how much the coordinator keeps; which jobs and nodes it forgets; all that it should,
 * once `done_ms` have passed since the last job ended */
void keeping_init(struct stage *stage);
void keeping_check(struct stage *stage, const struct cluster *cluster);
int64_t keeping_done_ms(const struct stage *stage);
void keeping_check_end(struct stage *stage);

/* workload.c: asks until it is answered */
void workload_submit(struct stage *stage, struct sim_job *job);
void workload_set_tenant(struct stage *stage, struct sim_tenant *tenant);

/* operators.c */
void operators_init(struct stage *stage, const char *url, int64_t until_ms);
void operators_check(struct stage *stage, const struct cluster *cluster);

/* checkers.c */
void stage_check_cluster(struct stage *stage);
void stage_check_start(struct stage *stage, struct sim_node *node, const struct worker_key *key);
struct membership_seen *stage_membership(struct stage *stage, const char *job, uint64_t generation,
                                         uint64_t digest);
void stage_check_training(struct stage *stage, const struct process *process);

#endif
