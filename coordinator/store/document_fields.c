#include "coordinator/store/document_fields.h"

#include "coordinator/model/cluster.h"
#include "coordinator/store/store.h"

#define NAME_OF(upper, lower) #lower,
static const char *const node_names[] = {NODE_STATES(NAME_OF) NULL};
static const char *const job_names[] = {JOB_STATES(NAME_OF) NULL};
static const char *const worker_names[] = {WORKER_STATES(NAME_OF) NULL};

#define FIELD(type, field_kind, member) FIELD_NAMED(type, field_kind, member, #member)
/* For a member with another name than in stored documents. */
#define FIELD_NAMED(type, field_kind, member, stored_name)                                         \
    {                                                                                              \
        .name = (stored_name), .kind = FIELD_##field_kind,                                         \
        .offset = offsetof(struct type, member), .size = sizeof(((struct type *)0)->member)        \
    }
#define ENUM_FIELD(type, member, value_names)                                                      \
    {                                                                                              \
        .name = #member, .kind = FIELD_NAME, .offset = offsetof(struct type, member),              \
        .size = sizeof(((struct type *)0)->member), .names = (value_names)                         \
    }
#define STRUCT_FIELD(type, member, table)                                                          \
    {                                                                                              \
        .name = #member, .kind = FIELD_STRUCT, .offset = offsetof(struct type, member),            \
        .size = sizeof(((struct type *)0)->member), .fields = (table)                              \
    }
#define END_OF_FIELDS                                                                              \
    {                                                                                              \
        .name = NULL                                                                               \
    }

const struct field document_reason_fields[] = {
    FIELD(reason, TEXT, kind),
    FIELD(reason, TEXT, text),
    FIELD(reason, TEXT, node),
    FIELD(reason, INT, rank),
    FIELD(reason, TEXT, hint),
    FIELD(reason, TEXT, output),
    END_OF_FIELDS,
};

const struct field document_gpu_fields[] = {
    FIELD(gpu, INT, index),      FIELD(gpu, TEXT, model),
    FIELD(gpu, TEXT, uuid),      FIELD(gpu, I64, memory_bytes),
    FIELD(gpu, BOOL, instance),  FIELD(gpu, BOOL, persistent),
    FIELD(gpu, BOOL, exclusive), FIELD(gpu, INT, nvlinks),
    FIELD(gpu, TEXT, links),     FIELD(gpu, BOOL, nvswitch),
    FIELD(gpu, INT, numa_place), FIELD(gpu, INT, pcie_generation),
    FIELD(gpu, INT, pcie_lanes), END_OF_FIELDS,
};

const struct field document_label_fields[] = {
    FIELD(label, TEXT, key),
    FIELD(label, TEXT, value),
    END_OF_FIELDS,
};

/* The fenced incarnations, one member each. */
#define PAST_FIELD(i)                                                                              \
    {                                                                                              \
        .name = "past_" #i, .kind = FIELD_U64,                                                     \
        .offset = offsetof(struct node, past) + (i) * sizeof(uint64_t), .size = sizeof(uint64_t)   \
    }
_Static_assert(NODE_PAST_MAX == 8, "a PAST_FIELD for each");

#define REFUSED_KEY_FIELD(i)                                                                       \
    {                                                                                              \
        .name = "refused_key_" #i, .kind = FIELD_TEXT,                                             \
        .offset = offsetof(struct node, refused_keys) + (i) * (size_t)(NODE_KEY_MAX + 1),          \
        .size = NODE_KEY_MAX + 1                                                                   \
    }
_Static_assert(NODE_REFUSED_KEYS_MAX == 4, "a REFUSED_KEY_FIELD for each");

const struct field document_node_fields[] = {
    FIELD(node, TEXT, name),
    ENUM_FIELD(node, state, node_names),
    STRUCT_FIELD(node, reason, document_reason_fields),
    FIELD(node, U64, incarnation),
    PAST_FIELD(0),
    PAST_FIELD(1),
    PAST_FIELD(2),
    PAST_FIELD(3),
    PAST_FIELD(4),
    PAST_FIELD(5),
    PAST_FIELD(6),
    PAST_FIELD(7),
    FIELD(node, U64, last_report),
    FIELD(node, TEXT, address),
    FIELD(node, TEXT, key),
    REFUSED_KEY_FIELD(0),
    REFUSED_KEY_FIELD(1),
    REFUSED_KEY_FIELD(2),
    REFUSED_KEY_FIELD(3),
    FIELD(node, TEXT, let_in_by),
    FIELD(node, TEXT, version),
    FIELD(node, TEXT, unenforced),
    FIELD(node, INT, slots),
    FIELD(node, INT, cpus_milli),
    FIELD(node, I64, memory_bytes),
    FIELD(node, INT, port_first),
    FIELD(node, INT, port_last),
    FIELD(node, BOOL, want_cordon),
    FIELD(node, BOOL, want_drain),
    FIELD(node, I64, joined_wall_ms),
    FIELD(node, I64, seen_wall_ms),
    FIELD(node, U64, desired_version),
    END_OF_FIELDS,
};

static const struct field exit_fields[] = {
    FIELD(exit_info, INT, code),       FIELD(exit_info, INT, signal),
    FIELD(exit_info, BOOL, oom),       FIELD(exit_info, BOOL, lost),
    FIELD(exit_info, BOOL, unstarted), FIELD(exit_info, BOOL, node_fault),
    FIELD(exit_info, TEXT, text),      FIELD(exit_info, TEXT, last_output),
    FIELD(exit_info, I64, wall_ms),    END_OF_FIELDS,
};

const struct field document_worker_fields[] = {
    FIELD(worker, U64, uid),
    FIELD(worker, TEXT, node),
    ENUM_FIELD(worker, state, worker_names),
    FIELD(worker, BOOL, should_stop),
    FIELD(worker, BOOL, leaving),
    FIELD(worker, BOOL, spare),
    FIELD(worker, BOOL, held),
    FIELD(worker, BOOL, aware),
    FIELD(worker, BOOL, reports),
    FIELD(worker, INT, slot),
    FIELD(worker, INT, local_rank),
    FIELD(worker, I64, pid),
    FIELD(worker, U64, step),
    FIELD(worker, U64, joined),
    FIELD(worker, U64, joining),
    FIELD(worker, TEXT, endpoint),
    FIELD(worker, U64, broken),
    FIELD(worker, U64, lost_in),
    FIELD(worker, U64, born),
    FIELD(worker, U64, generation),
    FIELD(worker, INT, rank),
    STRUCT_FIELD(worker, exit, exit_fields),
    END_OF_FIELDS,
};

static const struct field group_fields[] = {
    FIELD(group, U64, generation),   FIELD(group, INT, world),
    FIELD(group, BOOL, published),   FIELD(group, BOOL, joined),
    FIELD(group, BOOL, open),        FIELD(group, BOOL, broken),
    FIELD(group, TEXT, master_node), FIELD(group, INT, master_port),
    FIELD(group, I64, since_ms),     END_OF_FIELDS,
};

const struct field document_checkpoint_fields[] = {
    FIELD(checkpoint, U64, step),
    FIELD(checkpoint, U64, generation),
    FIELD(checkpoint, TEXT, path),
    FIELD(checkpoint, I64, wall_ms),
    FIELD(checkpoint, I64, size_bytes),
    FIELD(checkpoint, INT, world),
    END_OF_FIELDS,
};

static const char *const phase_names[] = {LEDGER_PHASES(NAME_OF) NULL};

/* What was charged to each phase, one member each. */
#define PHASE_FIELD(upper, lower)                                                                  \
    {.name = #lower "_ms",                                                                         \
     .kind = FIELD_I64,                                                                            \
     .offset = offsetof(struct ledger, ms) + LEDGER_##upper * sizeof(int64_t),                     \
     .size = sizeof(int64_t)},

static const struct field ledger_fields[] = {
    /* clang-format off */
    LEDGER_PHASES(PHASE_FIELD)
    /* clang-format on */
    ENUM_FIELD(ledger, phase, phase_names),
    FIELD(ledger, BOOL, open),
    FIELD(ledger, BOOL, closed),
    FIELD(ledger, I64, begun_ms),
    FIELD(ledger, I64, at_ms),
    FIELD(ledger, I64, sign_ms),
    FIELD(ledger, I64, typical_step_ms),
    FIELD(ledger, BOOL, hangs),
    FIELD(ledger, U64, step),
    FIELD(ledger, U64, best_step),
    FIELD(ledger, U64, rework_steps),
    END_OF_FIELDS,
};

const struct field document_tenant_fields[] = {
    FIELD(store_tenant, TEXT, name),
    FIELD(store_tenant, INT, weight),
    FIELD(store_tenant, INT, guaranteed_slots),
    FIELD(store_tenant, INT, limit_slots),
    FIELD(store_tenant, I64, created_wall_ms),
    END_OF_FIELDS,
};

const struct field document_job_fields[] = {
    FIELD(job, TEXT, id),
    FIELD(job, U64, sequence),
    ENUM_FIELD(job, state, job_names),
    STRUCT_FIELD(job, reason, document_reason_fields),
    FIELD(job, U64, version),
    FIELD(job, U64, next_generation),
    FIELD(job, U64, next_uid),
    STRUCT_FIELD(job, current, group_fields),
    STRUCT_FIELD(job, forming, group_fields),
    FIELD(job, INT, restarts),
    FIELD(job, INT, restarts_without_progress),
    FIELD(job, INT, nodes_min),
    FIELD(job, INT, nodes_max),
    FIELD_NAMED(job, TEXT, beneficiary, "gives_to"),
    FIELD(job, U64, progress_step),
    FIELD(job, U64, charged_generation),
    FIELD(job, INT, same_cause),
    FIELD(job, TEXT, last_cause),
    FIELD(job, I64, cause_wall_ms),
    FIELD(job, BOOL, may_be_excused),
    FIELD(job, BOOL, excused),
    FIELD(job, TEXT, preempted_by),
    FIELD(job, I64, preempted_wall_ms),
    FIELD(job, I64, backoff_until_ms),
    FIELD(job, I64, grow_after_ms),
    FIELD(job, INT, grow_failures),
    FIELD(job, U64, step),
    FIELD(job, U64, total_steps),
    FIELD(job, DOUBLE, loss),
    FIELD(job, DOUBLE, tokens_per_second),
    FIELD(job, I64, stalled_wall_ms),
    FIELD(job, I64, broken_at_ms),
    FIELD(job, U64, broken_at_step),
    FIELD(job, U64, recoveries),
    FIELD(job, I64, last_recovery_ms),
    FIELD(job, I64, stop_deadline_ms),
    FIELD(job, I64, runtime_deadline_ms),
    FIELD(job, I64, runtime_used_ms),
    FIELD(job, I64, runtime_counts_wall_ms),
    FIELD(job, I64, signal_wall_ms),
    FIELD(job, DOUBLE, use),
    FIELD(job, I64, use_wall_ms),
    FIELD(job, BOOL, cancel_requested),
    ENUM_FIELD(job, ending, job_names),
    FIELD(job, INT, exit_code),
    FIELD(job, I64, submitted_wall_ms),
    FIELD(job, I64, started_wall_ms),
    FIELD(job, I64, ended_wall_ms),
    FIELD(job, I64, running_wall_ms),
    FIELD(job, TEXT, idempotency_key),
    FIELD(job, TEXT, user),
    STRUCT_FIELD(job, ledger, ledger_fields),
    END_OF_FIELDS,
};
