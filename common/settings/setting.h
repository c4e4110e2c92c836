/* The table of training settings: libworker reads them, a job sets them under `training`, and
 * `muster env` and docs/settings.md show them. Names are dotted ("checkpoint.every"). In YAML the
 * dots are nested keys; in the environment the name is MUSTER_ and the name in capitals with
 * underscores.
 *
 * Constant data and pure functions; any thread. Codes are those of common/base/error.h, which
 * libworker's (worker/error.h) share.
 */
#ifndef SETTINGS_SETTING_H
#define SETTINGS_SETTING_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"

/* identifier, name, kind, use, default, min, max, choices, help. Bounds are of SETTING_INTEGER (as
 * such), SETTING_NUMBER and SETTING_DURATION (in ms). The choices of a number: ">", it is above its
 * min, "<", it is below its max. A mesh size of 0 is whatever is left of the
 * world.
 */
#define SETTINGS_LIST(X)                                                                           \
    X(STRATEGY, "strategy", CHOICE, OF_JOB, "ddp", 0, 0, "ddp|zero1|zero2|fsdp",                   \
      "how the model is spread over the ranks")                                                    \
    X(MIXED_PRECISION, "mixed_precision", CHOICE, OF_JOB, "no", 0, 0, "no|fp16|bf16|fp8",          \
      "type of the matrix arithmetic")                                                             \
    X(STOCHASTIC_ROUNDING, "stochastic_rounding", BOOL, OF_JOB, "false", 0, 0, NULL,               \
      "bf16: round parameters up or down at random, so that small updates count on average")       \
    X(LOW_GRADIENTS, "low_gradients", BOOL, OF_JOB, "false", 0, 0, NULL,                           \
      "zero1, zero2, fsdp: sum gradients in the type of mixed_precision: half the bytes, rounded") \
    X(LOSS_SCALE_INITIAL, "loss_scale.initial", NUMBER, OF_JOB, "65536", 0, INT64_MAX, ">",        \
      "fp16: first loss scale; the loss is multiplied by it")                                      \
    X(LOSS_SCALE_GROWTH, "loss_scale.growth", NUMBER, OF_JOB, "2", 1, 1024, ">",                   \
      "fp16: factor of the loss scale after loss_scale.interval steps without overflow")           \
    X(LOSS_SCALE_BACKOFF, "loss_scale.backoff", NUMBER, OF_JOB, "0.5", 0, 1, "><",                 \
      "fp16: factor of the loss scale after an overflow; that step is skipped")                    \
    X(LOSS_SCALE_INTERVAL, "loss_scale.interval", INTEGER, OF_JOB, "2000", 1, INT64_MAX, NULL,     \
      "fp16: clean steps before the loss scale grows")                                             \
    X(ACCUMULATION, "gradient_accumulation_steps", INTEGER, OF_JOB, "1", 1, 65536, NULL,           \
      "batches per optimizer step")                                                                \
    X(BY_TOKENS, "accumulate_by_tokens", BOOL, OF_JOB, "false", 0, 0, NULL,                        \
      "weigh a step's batches by their number of tokens, not equally: an epoch's last one may "    \
      "be smaller")                                                                                \
    X(MESH_DP, "mesh.dp", INTEGER, OF_JOB, "0", 0, 65536, NULL, "data-parallel ranks")             \
    X(MESH_DP_REPLICATE, "mesh.dp_replicate", INTEGER, OF_JOB, "0", 0, 65536, NULL,                \
      "replicas of a sharded model")                                                               \
    X(MESH_DP_SHARD, "mesh.dp_shard", INTEGER, OF_JOB, "0", 0, 65536, NULL,                        \
      "ranks that share one model")                                                                \
    X(MESH_CP, "mesh.cp", INTEGER, OF_JOB, "1", 1, 65536, NULL, "context-parallel ranks")          \
    X(MESH_TP, "mesh.tp", INTEGER, OF_JOB, "1", 1, 65536, NULL, "tensor-parallel ranks")           \
    X(MESH_PP, "mesh.pp", INTEGER, OF_JOB, "1", 1, 65536, NULL, "pipeline stages")                 \
    X(CLIP_GRAD_NORM, "clip_grad_norm", NUMBER, OF_JOB, "0", 0, 1000000, NULL,                     \
      "wk_step scales the gradients to at most this norm; 0 = no limit")                           \
    X(OPTIMIZER, "optimizer", CHOICE, OF_JOB, "adamw", 0, 0, "adamw|adam|sgd|lion|adafactor|muon", \
      "optimizer that wk_optimizer_new makes if the program does not choose one")                  \
    X(CLIP_GRAD_VALUE, "clip_grad_value", NUMBER, OF_JOB, "0", 0, 1000000, NULL,                   \
      "wk_step limits each element of the gradients to this, before the norm; 0 = no limit")       \
    X(SEED, "seed", INTEGER, OF_JOB, "1337", 0, INT64_MAX, NULL,                                   \
      "seed of every random "                                                                      \
      "sequence")                                                                                  \
    X(TOTAL_STEPS, "total_steps", INTEGER, OF_JOB, "0", 0, INT64_MAX, NULL,                        \
      "optimizer steps after which wk_next ends the loop; 0 = as the loader ends")                 \
    X(BUCKET_MIB, "bucket_mib", NUMBER, OF_JOB, "25", 0, 4096, NULL,                               \
      "size of the buckets in which gradients are reduced")                                        \
    X(FIRST_BUCKET_MIB, "first_bucket_mib", NUMBER, OF_JOB, "1", 0, 4096, NULL,                    \
      "size of the first bucket of a backward pass; a small one lets reducing start early")        \
    X(FIND_UNUSED, "ddp.find_unused", BOOL, OF_JOB, "false", 0, 0, NULL,                           \
      "parameters may get no gradient on some ranks; else that is an error")                       \
    X(STATIC_GRAPH, "ddp.static_graph", BOOL, OF_JOB, "false", 0, 0, NULL,                         \
      "every backward pass has the same gradients as the first one, equally often")                \
    X(DDP_HOOK, "ddp.hook", CHOICE, OF_JOB, "none", 0, 0, "none|fp16|bf16|powersgd",               \
      "how gradients are compressed on their way to the other ranks")                              \
    X(POWERSGD_RANK, "ddp.powersgd_rank", INTEGER, OF_JOB, "1", 1, 64, NULL,                       \
      "columns of the factors of a gradient")                                                      \
    X(POWERSGD_WARM_UP, "ddp.powersgd_warm_up", INTEGER, OF_JOB, "1000", 0, INT64_MAX, NULL,       \
      "steps of a generation that are summed uncompressed first")                                  \
    X(PREFETCH, "fsdp.prefetch", INTEGER, OF_JOB, "1", 0, 8, NULL,                                 \
      "blocks gathered ahead of the one in use")                                                   \
    X(RESHARD, "fsdp.reshard_after_forward", BOOL, OF_JOB, "true", 0, 0, NULL,                     \
      "free a block's parameters between its forward and backward pass")                           \
    X(RECOMPUTE, "recompute", BOOL, OF_JOB, "false", 0, 0, NULL,                                   \
      "keep only each layer's input from forward to backward, compute the rest again; same bits")  \
    X(ONE_RANK_READS, "one_rank_reads", BOOL, OF_JOB, "false", 0, 0, NULL,                         \
      "rank 0 alone reads the weights that a model starts with, and sends them")                   \
    X(OFFLOAD_DIR, "offload.dir", TEXT, OF_JOB, "", 0, 0, NULL,                                    \
      "folder for the optimizer's state, on disk; empty = the state stays in memory")              \
    X(OFFLOAD_PARAMETERS, "offload.parameters", BOOL, OF_JOB, "false", 0, 0, NULL,                 \
      "keep each rank's part of the parameters in offload.dir too; strategy fsdp")                 \
    X(CHECKPOINT_DIR, "checkpoint.dir", TEXT, OF_CHECKPOINT, "", 0, 0, NULL,                       \
      "folder of the checkpoints, reached by every rank; empty = none are written")                \
    X(CHECKPOINT_EVERY, "checkpoint.every", INTERVAL, OF_CHECKPOINT, "", 0, 0, NULL,               \
      "\"200 steps\" or a time such as \"10m\"; empty = only at the end")                          \
    X(CHECKPOINT_KEEP, "checkpoint.keep", INTEGER, OF_CHECKPOINT, "3", 0, 100000, NULL,            \
      "how many stay on disk; 0 = all")                                                            \
    X(CHECKPOINT_PATIENCE, "checkpoint.patience", DURATION, OF_JOB, "10m", 0, INT64_MAX, NULL,     \
      "how long to ask an unreachable coordinator to commit a checkpoint, and to retry the "       \
      "last one")                                                                                  \
    X(RESUME_FROM, "resume_from", TEXT, OF_JOB, "", 0, 0, NULL,                                    \
      "checkpoint to start from: a path, or \"latest\" of checkpoint.dir")                         \
    X(COMM_TIMEOUT, "comm_timeout", DURATION, OF_JOB, "30m", 1000, INT64_MAX, NULL,                \
      "time limit of one collective")                                                              \
    X(COMM_WAYS, "comm_ways", TEXT, OF_JOB, "", 0, 0, NULL,                                        \
      "algorithms of all-reduces between hosts, by size: \"direct:8K sliced:1M chain\"; empty "    \
      "= as measured")                                                                             \
    X(COMM_CONNECTIONS, "comm_connections", INTEGER, OF_JOB, "0", 0, 4, NULL,                      \
      "TCP connections between two ranks of different hosts; 0 = as measured")                     \
    X(CONNECT_TIMEOUT, "connect_timeout", DURATION, OF_JOB, "30s", 100, INT64_MAX, NULL,           \
      "time limit for the ranks of one generation to connect")                                     \
    X(RENDEZVOUS_TIMEOUT, "rendezvous_timeout", DURATION, OF_MACHINE, "60s", 100, INT64_MAX, NULL, \
      "time limit for the ranks to meet at MASTER_ADDR, when there is no agent")                   \
    X(BIND_ADDRESS, "bind_address", TEXT, OF_MACHINE, "", 0, 0, NULL,                              \
      "address at which peers reach this machine; empty = the one with the route to "              \
      "MASTER_ADDR")                                                                               \
    X(LOG_FILE, "log_file", TEXT, OF_JOB, "", 0, 0, NULL,                                          \
      "JSON lines file that rank 0 appends metrics to; empty = none")                              \
    X(LOG_CSV, "log_csv", TEXT, OF_JOB, "", 0, 0, NULL,                                            \
      "CSV file that rank 0 appends metrics to: step, time, name, value; empty = none")            \
    X(LOG_TENSORBOARD, "log_tensorboard", TEXT, OF_JOB, "", 0, 0, NULL,                            \
      "folder of TensorBoard event files that rank 0 writes; empty = none")                        \
    X(TRACE_FILE, "trace_file", TEXT, OF_JOB, "", 0, 0, NULL,                                      \
      "Chrome trace of rank 0's steps; empty = none")                                              \
    X(LOG_EVERY, "log_every", INTEGER, OF_JOB, "10", 0, INT64_MAX, NULL,                           \
      "steps between progress lines on rank 0's standard output; 0 = none")

enum setting {
#define X(id, name, kind, use, fallback, min, max, choices, help) SETTING_##id,
    SETTINGS_LIST(X)
#undef X
        SETTINGS_COUNT
};

enum setting_kind {
    SETTING_TEXT,
    SETTING_CHOICE,
    SETTING_INTEGER,
    SETTING_BOOL, /* kept as 0 or 1 */
    SETTING_NUMBER,
    SETTING_DURATION, /* kept in ms */
    SETTING_INTERVAL, /* "200 steps" or a duration; kept as steps, or as -ms; 0 = never */
};

/* Where a job sets it. */
enum setting_use {
    SETTING_OF_JOB,        /* under `training` */
    SETTING_OF_CHECKPOINT, /* under `checkpoint`, which the coordinator reads too */
    SETTING_OF_MACHINE,    /* nowhere: differs between machines, or only without an agent */
};

struct setting_row {
    const char *name;
    enum setting_kind kind;
    enum setting_use use;
    const char *fallback;
    int64_t min, max;
    const char *choices; /* separated by '|', NULL allows anything */
    const char *help;
};

extern const struct setting_row setting_rows[SETTINGS_COUNT];

/* The number of the setting with this name, or -1. */
int settings_find(const char *name);

/* The nearest name, NULL if none is near. */
const char *settings_nearest(const char *name);

/* The hint for an unknown name: the nearest one, those of its section, or where all are listed. */
void settings_meant(struct error *err, const char *name);

/* True if some setting's name begins with `path` and a dot. */
bool settings_section(const char *path);

struct setting_parsed {
    int64_t integer; /* INTEGER, BOOL, DURATION, INTERVAL */
    double number;   /* NUMBER */
};

/* E_INVALID_ARGUMENT with the accepted values if `text` does not fit the row. */
int setting_parse(enum setting setting, const char *text, struct setting_parsed *ret,
                  struct error *err);

/* "MUSTER_CHECKPOINT_EVERY" of "checkpoint.every" into ret; returns ret. Any name is allowed. */
enum { SETTING_ENV_MAX = 64 };
const char *setting_variable(const char *name, char ret[SETTING_ENV_MAX]);
const char *setting_env_name(enum setting setting, char ret[SETTING_ENV_MAX]);

#endif
