/* The table of job fields: every key of a job's file. From it derive the defaults, the checks of
 * values, what makes two submits the same job, the flags of `muster submit`, the keys that a config
 * file may hold, and the table in docs/jobs.md. A new field needs a row here, a field of JobSpec in
 * proto/job.proto, and the code that acts on struct spec's value of it.
 *
 * Each row is part of a job's identity: two submits with one idempotency key are the same job if
 * all rows of both mean the same.
 *
 * Constant data and pure functions; any thread.
 */
#ifndef SETTINGS_JOB_FIELD_H
#define SETTINGS_JOB_FIELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/name.h"

enum {
    SPEC_ARGS_MAX = 1024,
    SPEC_ENV_MAX = 512,
    SPEC_SECRETS_MAX = 32,
    SPEC_LABELS_MAX = 32,
    SPEC_PATH_MAX = 900, /* leaves room for "/step-00000200/rank-..." in a path */
    SPEC_NODES_MAX = 10000,
    SPEC_SPARES_MAX = 64,
    SPEC_WORKERS_PER_NODE_MAX = 64,
    SPEC_SLOTS_MAX = 256, /* NODE_SLOTS_MAX */
    SPEC_CPUS_MAX = 4096,
    SPEC_PRIORITY_LIMIT = 1000,
    SPEC_RESTARTS_MAX = 1000,
    SPEC_BACKOFF_MAX_MS = 24 * 3600 * 1000,
};

/* PLAIN: identifier, member of struct spec_input, shape, key, help; then columns of struct
 * job_field by name. FLAG: the same with a flag of `muster submit`: its name, letter and value
 * after the help. The order is that of the flags in --help, and of the checks.
 */
#define JOB_FIELDS(PLAIN, FLAG)                                                                    \
    PLAIN(COMMAND, command, WORDS, "command", "the program and its arguments",                     \
          .absent = "required", .max = SPEC_ARGS_MAX,                                              \
          .refusal = "the command has more than 1024 arguments",                                   \
          .accepts = "put long lists into a file the program reads")                               \
    FLAG(NAME, name, TEXT, "name", "name of the job", "name", 'n', NULL,                           \
         .absent = "from the command", .form = FORM_NAME)                                          \
    FLAG(TENANT, tenant, TEXT, "tenant",                                                           \
         "the job's tenant (else your token's tenant, or default)", "tenant", 0, NULL,             \
         .fallback = "default", .form = FORM_NAME)                                                 \
    PLAIN(WORKDIR, workdir, TEXT, "workdir", "folder that the command starts in",                  \
          .absent = "the submitter's folder", .form = FORM_PATH, .max = SPEC_PATH_MAX)             \
    FLAG(NODES, nodes, RANGE, "nodes", "how many nodes; a range makes the job elastic", "nodes",   \
         'N', "N|MIN..MAX", .fallback = "1", .min = 1, .max = SPEC_NODES_MAX,                      \
         .refusal = "too many nodes")                                                              \
    FLAG(SPARES, spares, COUNT, "nodes.spares",                                                    \
         "spare nodes kept for the job, used at once when a node is lost", "spares", 0, "N",       \
         .absent = "0", .max = SPEC_SPARES_MAX, .refusal = "too many spare nodes")                 \
    FLAG(WORKERS_PER_NODE, workers_per_node, COUNT, "workers_per_node", "processes on each node",  \
         "workers-per-node", 'w', "N", .fallback = "1", .min = 1,                                  \
         .max = SPEC_WORKERS_PER_NODE_MAX, .refusal = "too many workers per node")                 \
    FLAG(SLOTS, slots, COUNT, "resources.slots", "slots (GPUs, or CPU slots) of each worker",      \
         "slots", 0, "N", .fallback = "1", .min = 1, .max = SPEC_SLOTS_MAX,                        \
         .refusal = "too many slots for one worker")                                               \
    FLAG(CPUS, cpus, NUMBER, "resources.cpus", "CPUs of each worker", "cpus", 0, "N",              \
         .fallback = "1", .max = SPEC_CPUS_MAX, .refusal = "not a number of CPUs",                 \
         .accepts = "a number above 0, 4096 at most; fractions are fine")                          \
    FLAG(MEMORY, memory, TEXT, "resources.memory", "memory of each worker, for example 2GiB",      \
         "memory", 0, "SIZE", .absent = "no limit", .form = FORM_SIZE,                             \
         .max = INT64_MAX / SPEC_WORKERS_PER_NODE_MAX, .accepts = "a size such as 512MiB or 2GiB") \
    FLAG(PRIORITY, priority, TEXT, "priority",                                                     \
         "which jobs go first: low, normal, high, or -1000..1000", "priority", 0, "P",             \
         .fallback = "normal", .form = FORM_PRIORITY, .choices = {"low", "normal", "high"},        \
         .min = -SPEC_PRIORITY_LIMIT, .max = SPEC_PRIORITY_LIMIT,                                  \
         .accepts = "low, normal, high, or a number from -1000 to 1000")                           \
    FLAG(MAX_RUNTIME, max_runtime, TEXT, "max_runtime", "end the job after this long",             \
         "max-runtime", 0, "TIME", .absent = "no limit", .form = FORM_TIME,                        \
         .accepts = "a time such as 90m or 2h")                                                    \
    FLAG(ELASTIC, elastic, TEXT, "elastic",                                                        \
         "what a change of nodes does: in_place, restart or off", "elastic", 0, "HOW",             \
         .fallback = "in_place", .form = FORM_CHOICE, .choices = {"in_place", "restart", "off"})   \
    FLAG(CHECKPOINT_DIR, checkpoint_dir, TEXT, "checkpoint.dir",                                   \
         "folder for checkpoints; every node must reach it", "checkpoint", 0, "DIR",               \
         .absent = "no checkpoints", .form = FORM_PATH, .max = SPEC_PATH_MAX)                      \
    FLAG(CHECKPOINT_EVERY, checkpoint_every, TEXT, "checkpoint.every",                             \
         "how often a checkpoint is saved", "checkpoint-every", 0, "N steps|TIME",                 \
         .fallback = "200 steps", .form = FORM_INTERVAL, .refusal = "not an interval",             \
         .accepts = "\"200 steps\" or a time such as \"10m\"")                                     \
    PLAIN(CHECKPOINT_KEEP, checkpoint_keep, COUNT, "checkpoint.keep",                              \
          "how many committed checkpoints stay; 0 keeps all", .fallback = "3", .max = INT32_MAX,   \
          .refusal = "too many checkpoints", .accepts = "0 keeps all")                             \
    FLAG(RESUME_FROM, resume_from, SETTING, "training.resume_from",                                \
         "checkpoint to start from: the newest in the folder, or this one", "resume-from", 0,      \
         "latest|PATH", .absent = "at step 0")                                                     \
    FLAG(RESTART_MAX, restart_max, COUNT, "restart.max",                                           \
         "restarts allowed without progress in between, also when the program fails", "restarts",  \
         0, "N", .fallback = "5", .max = SPEC_RESTARTS_MAX, .refusal = "too many restarts")        \
    FLAG(ON_FAILURE, on_failure, TEXT, "restart.on_failure",                                       \
         "when the program itself fails: stop or retry", "on-failure", 0, "HOW",                   \
         .absent = "depends on the other keys", .form = FORM_CHOICE, .choices = {"stop", "retry"}) \
    FLAG(ON_NO_PROGRESS, on_no_progress, TEXT, "restart.on_no_progress",                           \
         "after three equal failures without progress: stop or retry", "on-no-progress", 0, "HOW", \
         .absent = "stop; retry if restart.max is set", .form = FORM_CHOICE,                       \
         .choices = {"stop", "retry"})                                                             \
    PLAIN(BACKOFF, backoff, TEXT, "restart.backoff",                                               \
          "the shortest and the longest wait before a restart", .fallback = "1s..1m",              \
          .form = FORM_TIMES, .max = SPEC_BACKOFF_MAX_MS, .refusal = "not a range of times",       \
          .accepts = "a range such as 1s..1m")                                                     \
    PLAIN(CONSTRAINTS, constraints, PAIRS, "constraints",                                          \
          "node labels and the values they must have", .absent = "none", .max = SPEC_LABELS_MAX,   \
          .refusal = "too many constraints")                                                       \
    PLAIN(TOPOLOGY, topology, TEXT, "topology",                                                    \
          "a node label that must be the same on all nodes of the gang", .absent = "none",         \
          .max = LABEL_MAX, .refusal = "the label is too long",                                    \
          .accepts = "the name of a node label")                                                   \
    FLAG(ENV, env, PAIRS, "env", "environment variable of the workers; KEY alone copies yours",    \
         "env", 'e', "KEY=VALUE", .absent = "none", .max = SPEC_ENV_MAX,                           \
         .refusal = "too many variables")                                                          \
    FLAG(SECRETS, secrets, PAIRS, "secrets",                                                       \
         "secret of the tenant that the workers have as VARIABLE (`muster secret set NAME`)",      \
         "secret", 0, "VARIABLE=NAME", .absent = "none", .max = SPEC_SECRETS_MAX,                  \
         .refusal = "too many secrets")                                                            \
    FLAG(TRAINING, training, SETTINGS, "training",                                                 \
         "training setting, for example strategy=ddp or mesh.dp=2", "set", 0, "SETTING=VALUE",     \
         .absent = "none")

enum job_field_id {
#define X(id, ...) JOB_FIELD_##id,
    JOB_FIELDS(X, X)
#undef X
        JOB_FIELDS_COUNT
};

/* The type in JobSpec, and in struct spec_input. */
enum field_shape {
    SHAPE_TEXT,
    SHAPE_COUNT,    /* 0 is absent where `min` is above 0 */
    SHAPE_NUMBER,   /* above 0 */
    SHAPE_RANGE,    /* {min, max}, both counts */
    SHAPE_WORDS,    /* a list of texts */
    SHAPE_PAIRS,    /* name -> text */
    SHAPE_SETTING,  /* a training setting that has a flag of its own */
    SHAPE_SETTINGS, /* training settings: common/settings/setting.h */
};

/* How a text is read. */
enum field_form {
    FORM_PLAIN,
    FORM_NAME,     /* [a-z0-9][a-z0-9.-]{0,62} */
    FORM_PATH,     /* the CLI makes a relative one absolute */
    FORM_SIZE,     /* "2GiB" */
    FORM_TIME,     /* "90m"; a bare number is in seconds */
    FORM_TIMES,    /* "1s..1m" */
    FORM_INTERVAL, /* "200 steps" or "10m"; a bare number is in steps */
    FORM_CHOICE,   /* one of `choices` */
    FORM_PRIORITY, /* one of `choices`, or a number */
};

/* Choices of restart.on_failure and restart.on_no_progress. */
enum { AFTER_FAILURE_STOP, AFTER_FAILURE_RETRY };

enum { FIELD_CHOICES_MAX = 4 };

struct job_field {
    const char *key;  /* "restart.max" */
    const char *help; /* one sentence: --help and docs/jobs.md */
    enum field_shape shape;
    enum field_form form;                       /* of SHAPE_TEXT */
    const char *fallback;                       /* the value of an absent field; NULL: none */
    const char *absent;                         /* without fallback: what holds, in words */
    int64_t min, max;                           /* of the number, or of the length */
    const char *choices[FIELD_CHOICES_MAX + 1]; /* NULL-terminated */
    const char *refusal, *accepts;              /* of a bad value: the error and its hint */
    const char *flag;                           /* of `muster submit`; NULL: none */
};

extern const struct job_field job_fields[JOB_FIELDS_COUNT];

/* True if a job's file may have `name` at the top level: a key, or the section of one. */
bool job_field_top(const char *name);

/* The length of the section of `key` ("restart" of "restart.max"), 0 if it has none. */
size_t job_field_section(const char *key);

#endif
