/* All events of the coordinator. api_rpc, api_rest and the loop's timers make them;
 * coordinator_step consumes them. Pointers in an event are borrowed for that step only. */
#ifndef CORE_EVENT_H
#define CORE_EVENT_H

#include "coordinator/model/cluster.h"

enum event_kind {
    EVENT_TICK,     /* the time of ACTION_WAKE_AT */
    EVENT_PASS,     /* make the pass over the queue that earlier events left to this one */
    EVENT_RESTORED, /* once, after the store was loaded */
    EVENT_NODE_REGISTER,
    EVENT_NODE_REPORT,
    EVENT_NODE_GONE, /* its connection is closed */
    EVENT_NODE_SET,  /* cordon, drain, uncordon */
    EVENT_JOB_SUBMIT,
    EVENT_JOB_CANCEL,
    EVENT_CHECKPOINT,   /* a worker asks to commit, or has committed */
    EVENT_JOB_SCALE,    /* another number of nodes */
    EVENT_JOB_STACKS,   /* its programs are to write where they are */
    EVENT_JOB_CHANNEL,  /* a terminal or the like beside a worker was opened, or has ended */
    EVENT_HALT,         /* the cluster stops: running jobs save and end, nothing starts */
    EVENT_TENANT_SET,   /* weight, guarantee, limit; the answer has no name */
    EVENT_NODES_FORGET, /* lost nodes, by number and by age; not answered */
};

struct worker_report { /* proto WorkerStatus in the model's types */
    const char *job;
    uint64_t uid;
    enum worker_state state;
    int64_t pid;
    uint64_t generation, joining, step, total_steps, broken;
    const char *endpoint;
    bool aware, reports, busy;
    uint64_t reports_dropped;
    const uint32_t *lost_ranks;
    int lost_ranks_count;
    const struct collective_wait *wait; /* NULL = not waiting */
    const struct exit_info *exit;       /* with WORKER_EXITED; or with stuck_count */
    const int64_t *stuck_pids;          /* processes that SIGKILL did not end */
    int stuck_count;
    const char *start_error;        /* "" = no error */
    double loss, tokens_per_second; /* latest metrics of those names; NAN = none in this report */
    double saved_s;      /* mean pause for saving, over the steps since the last report */
    int saved_samples;   /* number of steps in that mean */
    double saved_once_s; /* other pauses for saving since then */
};

enum node_command { NODE_CORDON, NODE_DRAIN, NODE_UNCORDON, NODE_REKEY };

struct nodes_forget { /* which lost nodes; core/node_forget.h has those that stay anyway */
    int max;          /* at most that many now */
    int keep;         /* those beyond it, if last seen before: */
    int64_t beyond_before_wall_ms;
    /* those last seen before it, however few; 0 = none. And the same for nodes that an
     * administrator cordoned or drains. */
    int64_t old_before_wall_ms, set_aside_before_wall_ms;
};

struct event {
    enum event_kind kind;
    int64_t now_ms, wall_ms;
    bool pass_later;  /* leave the pass over the queue to a later event, such as EVENT_PASS */
    uint64_t request; /* the caller that waits for ACTION_ANSWER; 0 = none */
    union {
        struct {
            const struct node *facts; /* name, incarnation, address, sizes, labels, gpus, ports */
            const struct worker_report *workers;
            int workers_count;
        } node_register;
        struct {
            const char *node;
            uint64_t incarnation, sequence;
            const struct worker_report *workers;
            int workers_count;
            struct gpu_news gpus;
        } node_report;
        struct {
            const char *node;
            uint64_t incarnation;
        } node_gone;
        struct {
            const char *node;
            enum node_command command;
            const char *reason;
        } node_set;
        struct {
            struct spec *spec; /* borrowed; core takes its own reference */
            const char *idempotency_key;
            const uint8_t *secret; /* SECRET_BYTES of randomness for the new job */
            const char *user;      /* the submitter; NULL = unknown */
        } job_submit;
        struct {
            const char *id;
            const char *reason;
            const char *user; /* who asked; NULL = unknown */
        } job_cancel;
        struct {
            const char *job, *node;
            uint64_t uid, incarnation;
            bool done; /* false: may this generation commit? true: the manifest is on disk */
            struct checkpoint checkpoint;
        } checkpoint;
        struct {
            const char *id;
            int nodes_min, nodes_max;
            const char *reason;
        } job_scale;
        const char *job_stacks;                 /* the job's id */
        const struct channel_note *job_channel; /* core/channel_note.h */
        struct {
            const struct tenant *facts; /* name, weight, guaranteed_slots, limit_slots */
        } tenant_set;
        struct nodes_forget nodes_forget;
    };
};

#endif
