/* The one table of settings (see worker/config.h) and a set of values for it.
 *
 * Reading is strict: a value that does not fit its type, its bounds or its choices is refused with
 * where it came from. `struct settings` is plain data apart from one arena; it belongs to whoever
 * called settings_read, who frees it with settings_fini. One thread until read, then any.
 */
#ifndef CONFIG_SETTINGS_H
#define CONFIG_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <worker/config.h>

#include "common/base/arena.h"
#include "common/base/error.h"

/* identifier, name, kind, default, min, max, choices, help. Bounds are of SETTING_INTEGER (as
 * such), SETTING_NUMBER and SETTING_DURATION (in ms). A mesh size of 0 is whatever is left of the
 * world.
 */
#define SETTINGS_LIST(X)                                                                           \
    X(STRATEGY, "strategy", CHOICE, "ddp", 0, 0, "ddp|zero1|zero2|fsdp",                           \
      "how the model is spread over the ranks")                                                    \
    X(MIXED_PRECISION, "mixed_precision", CHOICE, "no", 0, 0, "no|fp16|bf16|fp8",                  \
      "type in which the heavy arithmetic runs")                                                   \
    X(STOCHASTIC_ROUNDING, "stochastic_rounding", BOOL, "false", 0, 0, NULL,                       \
      "bf16: round parameters up or down by chance, so that small updates count on average")       \
    X(LOW_GRADIENTS, "low_gradients", BOOL, "false", 0, 0, NULL,                                   \
      "zero1, zero2, fsdp: sum gradients in the type of mixed_precision: half the bytes, rounded") \
    X(LOSS_SCALE_INITIAL, "loss_scale.initial", NUMBER, "65536", 0, INT64_MAX, NULL,               \
      "fp16: what the loss is multiplied with at first")                                           \
    X(LOSS_SCALE_GROWTH, "loss_scale.growth", NUMBER, "2", 1, 1024, NULL,                          \
      "fp16: factor of the loss scale after loss_scale.interval steps without overflow")           \
    X(LOSS_SCALE_BACKOFF, "loss_scale.backoff", NUMBER, "0.5", 0, 1, NULL,                         \
      "fp16: the same after an overflow, whose step is skipped")                                   \
    X(LOSS_SCALE_INTERVAL, "loss_scale.interval", INTEGER, "2000", 1, INT64_MAX, NULL,             \
      "fp16: clean steps before the loss scale grows")                                             \
    X(ACCUMULATION, "gradient_accumulation_steps", INTEGER, "1", 1, 65536, NULL,                   \
      "batches per optimizer step")                                                                \
    X(MESH_DP, "mesh.dp", INTEGER, "0", 0, 65536, NULL, "data-parallel ranks")                     \
    X(MESH_DP_REPLICATE, "mesh.dp_replicate", INTEGER, "0", 0, 65536, NULL,                        \
      "replicas of a sharded model")                                                               \
    X(MESH_DP_SHARD, "mesh.dp_shard", INTEGER, "0", 0, 65536, NULL, "ranks that share one model")  \
    X(MESH_CP, "mesh.cp", INTEGER, "1", 1, 65536, NULL, "context-parallel ranks")                  \
    X(MESH_TP, "mesh.tp", INTEGER, "1", 1, 65536, NULL, "tensor-parallel ranks")                   \
    X(MESH_PP, "mesh.pp", INTEGER, "1", 1, 65536, NULL, "pipeline stages")                         \
    X(CLIP_GRAD_NORM, "clip_grad_norm", NUMBER, "0", 0, 1000000, NULL,                             \
      "largest gradient norm wk_step lets through; 0 = no limit")                                  \
    X(OPTIMIZER, "optimizer", CHOICE, "adamw", 0, 0, "adamw|adam|sgd|lion|adafactor|muon",         \
      "what wk_optimizer_new makes, in programs that leave the choice open")                       \
    X(CLIP_GRAD_VALUE, "clip_grad_value", NUMBER, "0", 0, 1000000, NULL,                           \
      "largest element of a gradient wk_step lets through, before the norm's limit; 0 = no limit") \
    X(SEED, "seed", INTEGER, "1337", 0, INT64_MAX, NULL, "start of every random sequence")         \
    X(TOTAL_STEPS, "total_steps", INTEGER, "0", 0, INT64_MAX, NULL,                                \
      "optimizer steps after which wk_next ends the loop; 0 = as the loader ends")                 \
    X(BUCKET_MIB, "bucket_mib", NUMBER, "25", 0, 4096, NULL,                                       \
      "gradients that are reduced together")                                                       \
    X(FIRST_BUCKET_MIB, "first_bucket_mib", NUMBER, "1", 0, 4096, NULL,                            \
      "the same for the first of a backward pass, so that reducing starts early")                  \
    X(FIND_UNUSED, "ddp.find_unused", BOOL, "false", 0, 0, NULL,                                   \
      "parameters may get no gradient on some ranks; else that is an error")                       \
    X(STATIC_GRAPH, "ddp.static_graph", BOOL, "false", 0, 0, NULL,                                 \
      "every backward pass announces the gradients that the first one did, as often")              \
    X(DDP_HOOK, "ddp.hook", CHOICE, "none", 0, 0, "none|fp16|bf16|powersgd",                       \
      "how gradients are compressed on their way to the other ranks")                              \
    X(POWERSGD_RANK, "ddp.powersgd_rank", INTEGER, "1", 1, 64, NULL,                               \
      "columns of the factors of a gradient")                                                      \
    X(POWERSGD_WARM_UP, "ddp.powersgd_warm_up", INTEGER, "1000", 0, INT64_MAX, NULL,               \
      "steps of a generation that are summed uncompressed first")                                  \
    X(PREFETCH, "fsdp.prefetch", INTEGER, "1", 0, 8, NULL,                                         \
      "blocks gathered ahead of the one in use")                                                   \
    X(RESHARD, "fsdp.reshard_after_forward", BOOL, "true", 0, 0, NULL,                             \
      "give a block's parameters back between its forward and backward pass")                      \
    X(ONE_RANK_READS, "one_rank_reads", BOOL, "false", 0, 0, NULL,                                 \
      "rank 0 alone reads the weights that a model starts with, and sends them")                   \
    X(OFFLOAD_DIR, "offload.dir", TEXT, "", 0, 0, NULL,                                            \
      "folder whose disk holds the optimizer's state; empty = it stays in memory")                 \
    X(OFFLOAD_PARAMETERS, "offload.parameters", BOOL, "false", 0, 0, NULL,                         \
      "keep each rank's part of the parameters there too; strategy fsdp")                          \
    X(CHECKPOINT_DIR, "checkpoint.dir", TEXT, "", 0, 0, NULL,                                      \
      "folder of the checkpoints, reached by every rank; empty = none are written")                \
    X(CHECKPOINT_EVERY, "checkpoint.every", INTERVAL, "", 0, 0, NULL,                              \
      "\"200 steps\" or a time such as \"10m\"; empty = only at the end")                          \
    X(CHECKPOINT_KEEP, "checkpoint.keep", INTEGER, "3", 0, 100000, NULL,                           \
      "how many stay on disk; 0 = all")                                                            \
    X(CHECKPOINT_PATIENCE, "checkpoint.patience", DURATION, "10m", 0, INT64_MAX, NULL,             \
      "how long an unreachable coordinator is asked to commit one, and the last one is tried")     \
    X(RESUME_FROM, "resume_from", TEXT, "", 0, 0, NULL,                                            \
      "checkpoint to start from: a path, or \"latest\" of checkpoint.dir")                         \
    X(COMM_TIMEOUT, "comm_timeout", DURATION, "30m", 1000, INT64_MAX, NULL,                        \
      "longest one collective may take")                                                           \
    X(COMM_WAYS, "comm_ways", TEXT, "", 0, 0, NULL,                                                \
      "how all-reduces between hosts go: \"direct:8K sliced:1M chain\"; empty = as measured")      \
    X(CONNECT_TIMEOUT, "connect_timeout", DURATION, "30s", 100, INT64_MAX, NULL,                   \
      "longest the ranks of one generation may take to connect")                                   \
    X(RENDEZVOUS_TIMEOUT, "rendezvous_timeout", DURATION, "60s", 100, INT64_MAX, NULL,             \
      "longest the ranks may take to meet at MASTER_ADDR, where no agent tells them of each "      \
      "other")                                                                                     \
    X(BIND_ADDRESS, "bind_address", TEXT, "", 0, 0, NULL,                                          \
      "address peers reach this machine at; empty = the one that leads to MASTER_ADDR")            \
    X(LOG_FILE, "log_file", TEXT, "", 0, 0, NULL,                                                  \
      "JSON lines file that rank 0 appends metrics to; empty = none")                              \
    X(LOG_CSV, "log_csv", TEXT, "", 0, 0, NULL, "the same as CSV: step, time, name, value")        \
    X(LOG_TENSORBOARD, "log_tensorboard", TEXT, "", 0, 0, NULL,                                    \
      "folder of TensorBoard event files that rank 0 writes; empty = none")                        \
    X(TRACE_FILE, "trace_file", TEXT, "", 0, 0, NULL,                                              \
      "Chrome trace of rank 0's steps; empty = none")                                              \
    X(LOG_EVERY, "log_every", INTEGER, "10", 0, INT64_MAX, NULL,                                   \
      "steps between progress lines on rank 0's standard output; 0 = none")

enum setting {
#define X(id, name, kind, fallback, min, max, choices, help) SETTING_##id,
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

struct setting_row {
    const char *name;
    enum setting_kind kind;
    const char *fallback;
    int64_t min, max;
    const char *choices; /* separated by '|', NULL allows anything */
    const char *help;
};

extern const struct setting_row setting_rows[SETTINGS_COUNT];

struct setting_value {
    const char *text; /* in the arena or the table, never NULL */
    int64_t integer;  /* INTEGER, BOOL, DURATION, INTERVAL */
    double number;    /* NUMBER */
    enum wk_origin origin;
    const char *where; /* "MUSTER_SEED", "run.yaml:3"; "" for default and code */
};

struct settings {
    struct setting_value values[SETTINGS_COUNT];
    struct arena arena;
};

/* Where environment variables come from: getenv in programs, a table in tests. */
struct environment {
    const char *(*get)(void *arg, const char *name); /* NULL if not set */
    void *arg;
};

struct settings_input {
    const struct wk_setting *code; /* [n_code] */
    int n_code;
    const struct environment *environment;
    const char *file; /* NULL: MUSTER_CONFIG if set */
};

/* WK_EINVAL with what, where and what would be accepted; WK_ENOTFOUND or WK_EIO for the file. On
 * failure nothing needs to be freed. */
int settings_read(const struct settings_input *input, struct settings *ret, struct error *err);
void settings_fini(struct settings *settings);

/* The number of the setting with this name, or -1. */
int settings_find(const char *name);

/* Set one value, if `origin` is at least as strong as what is there. */
struct setting_source {
    enum wk_origin origin;
    const char *where;
};
int settings_set(struct settings *settings, enum setting setting, const char *text,
                 const struct setting_source *source, struct error *err);

/* Take the values of a YAML document. `name` is shown in errors. */
int settings_read_yaml(struct settings *settings, const char *name, const char *text, size_t size,
                       struct error *err);

/* "MUSTER_CHECKPOINT_EVERY" into ret[SETTING_ENV_MAX]; returns ret. */
enum { SETTING_ENV_MAX = 64 };
const char *setting_env_name(enum setting setting, char ret[SETTING_ENV_MAX]);

/* For code: the typed values. */
static inline int64_t settings_integer(const struct settings *settings, enum setting setting)
{
    return settings->values[setting].integer;
}

static inline double settings_number(const struct settings *settings, enum setting setting)
{
    return settings->values[setting].number;
}

static inline const char *settings_text(const struct settings *settings, enum setting setting)
{
    return settings->values[setting].text;
}

/* "default", "config file", "environment", "code". */
const char *setting_origin_name(enum wk_origin origin);

int settings_print(const struct settings *settings, FILE *out);

#endif
