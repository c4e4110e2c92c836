/* The rows of the table of job fields (job_field.h). Constant. */
#ifndef SETTINGS_JOB_FIELD_LIST_H
#define SETTINGS_JOB_FIELD_LIST_H

#include <stdint.h>

#include "common/base/name.h"
#include "common/settings/spec_limit.h"

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
    FLAG(GRACE, grace, TEXT, "grace",                                                              \
         "time to save and end after the stop signal, before SIGKILL", "grace", 0, "TIME",         \
         .fallback = "10s", .form = FORM_TIME, .min = 1000, .max = SPEC_GRACE_MAX_MS,              \
         .refusal = "not a grace", .accepts = "a time from 1s to 2h")                              \
    FLAG(STOP_SIGNAL, stop_signal, TEXT, "stop_signal", "signal that asks the workers to end",     \
         "stop-signal", 0, "SIGNAL", .fallback = "TERM", .form = FORM_CHOICE,                      \
         .choices = {"TERM", "INT", "HUP", "QUIT", "USR1", "USR2"})                                \
    FLAG(EARLY_SIGNAL, signal, TEXT, "signal",                                                     \
         "signal sent once to the workers that long before max_runtime is over", "signal", 0,      \
         "SIGNAL@TIME", .absent = "none", .form = FORM_SIGNAL, .min = 1000,                        \
         .choices = {"TERM", "INT", "HUP", "QUIT", "USR1", "USR2"},                                \
         .refusal = "not a signal and a time of at least 1s",                                      \
         .accepts = "a signal and how long before the end it is sent, such as USR1@2m")            \
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

#endif
