/* A job spec from a command line: a file, words after `--`, and flags that override the file. */
#ifndef CLI_JOB_INPUT_H
#define CLI_JOB_INPUT_H

#include "cli/client.h"
#include "common/base/arena.h"
#include "common/base/tree.h"
#include "proto/job.pb-c.h"

/* By its name: a spec that is not there is a mistake, not a program. */
bool job_input_is_file(const char *word);

/* For completion; the coordinator knows what else they may be. */
extern const char *const job_priorities[], *const job_elasticities[], *const job_after_failures[];

/* The rows `submit` and `run` share. */
#define JOB_OPTIONS                                                                                \
    {.name = "file",                                                                               \
     .letter = 'f',                                                                                \
     .kind = ARGS_OPTION,                                                                          \
     .value_name = "SPEC",                                                                         \
     .help = "job spec, YAML or JSON; - reads standard input"},                                    \
        {.name = "name", .letter = 'n', .kind = ARGS_OPTION, .help = "name of the job"},           \
        {.name = "tenant",                                                                         \
         .kind = ARGS_OPTION,                                                                      \
         .help = "the job's tenant (else your token's tenant, or default)"},                       \
        {.name = "nodes",                                                                          \
         .letter = 'N',                                                                            \
         .kind = ARGS_OPTION,                                                                      \
         .value_name = "N|MIN..MAX",                                                               \
         .help = "how many nodes; a range makes the job elastic"},                                 \
        {.name = "spares",                                                                         \
         .kind = ARGS_OPTION,                                                                      \
         .value_name = "N",                                                                        \
         .help = "spare nodes kept for the job, used at once when a node is lost"},                \
        {.name = "workers-per-node",                                                               \
         .letter = 'w',                                                                            \
         .kind = ARGS_OPTION,                                                                      \
         .value_name = "N",                                                                        \
         .help = "processes on each node"},                                                        \
        {.name = "slots",                                                                          \
         .kind = ARGS_OPTION,                                                                      \
         .value_name = "N",                                                                        \
         .help = "slots (GPUs, or CPU slots) of each worker"},                                     \
        {.name = "cpus", .kind = ARGS_OPTION, .value_name = "N", .help = "CPUs of each worker"},   \
        {.name = "memory",                                                                         \
         .kind = ARGS_OPTION,                                                                      \
         .value_name = "SIZE",                                                                     \
         .help = "memory of each worker, for example 2GiB"},                                       \
        {.name = "priority",                                                                       \
         .kind = ARGS_OPTION,                                                                      \
         .value_name = "P",                                                                        \
         .offers = job_priorities,                                                                 \
         .help = "low, normal, high, or -1000..1000"},                                             \
        {.name = "max-runtime",                                                                    \
         .kind = ARGS_OPTION,                                                                      \
         .value_name = "TIME",                                                                     \
         .help = "end the job after this long"},                                                   \
        {.name = "elastic",                                                                        \
         .kind = ARGS_OPTION,                                                                      \
         .value_name = "HOW",                                                                      \
         .offers = job_elasticities,                                                               \
         .help = "in_place, restart or off"},                                                      \
        {.name = "checkpoint",                                                                     \
         .kind = ARGS_OPTION,                                                                      \
         .value_name = "DIR",                                                                      \
         .help = "folder for checkpoints; every node must reach it"},                              \
        {.name = "checkpoint-every",                                                               \
         .kind = ARGS_OPTION,                                                                      \
         .value_name = "N steps|TIME",                                                             \
         .help = "how often"},                                                                     \
        {.name = "resume-from",                                                                    \
         .kind = ARGS_OPTION,                                                                      \
         .value_name = "latest|PATH",                                                              \
         .help = "checkpoint to start from: the newest in the folder, or this one"},               \
        {.name = "restarts",                                                                       \
         .kind = ARGS_OPTION,                                                                      \
         .value_name = "N",                                                                        \
         .help = "restarts allowed without progress in between, also when the program fails"},     \
        {.name = "on-failure",                                                                     \
         .kind = ARGS_OPTION,                                                                      \
         .value_name = "HOW",                                                                      \
         .offers = job_after_failures,                                                             \
         .help = "when the program itself fails: stop or retry"},                                  \
        {.name = "on-no-progress",                                                                 \
         .kind = ARGS_OPTION,                                                                      \
         .value_name = "HOW",                                                                      \
         .offers = job_after_failures,                                                             \
         .help = "after three equal failures without progress: stop or retry"},                    \
        {.name = "env",                                                                            \
         .letter = 'e',                                                                            \
         .kind = ARGS_REPEATED,                                                                    \
         .value_name = "KEY=VALUE",                                                                \
         .help = "environment variable of the workers; KEY alone copies yours"},                   \
        {.name = "secret",                                                                         \
         .kind = ARGS_REPEATED,                                                                    \
         .value_name = "VARIABLE=NAME",                                                            \
         .help = "secret of the tenant that the workers have as VARIABLE (`muster secret set "     \
                 "NAME`)"},                                                                        \
        {.name = "set",                                                                            \
         .kind = ARGS_REPEATED,                                                                    \
         .value_name = "SETTING=VALUE",                                                            \
         .help = "training setting, for example strategy=ddp or mesh.dp=2"},                       \
    {                                                                                              \
        .name = "command", .kind = ARGS_COMMAND, .value_name = "[SPEC | -- COMMAND...]",           \
        .is_file = job_input_is_file, .help = "a spec file, or the program to run"                 \
    }

struct job_input {
    Muster__JobSpec *spec;
    /* where it was written, for what is wrong with it: */
    struct arena arena;
    struct tree *written;
    const char *file; /* NULL: all of it was options */
};

/* On failure nothing needs to be freed. */
int job_input(const struct args *args, struct job_input *ret, struct error *err);

/* The same for a hypothetical job, which needs no command. True if anything was given. */
int job_input_shape(const struct args *args, struct job_input *ret, struct error *err);
bool job_input_given(const struct args *args);
void job_input_fini(struct job_input *input); /* zeroed is fine */

/* Add file and line of err->field to the coordinator's error. */
void job_input_blame(const struct job_input *input, struct error *err);

/* N or MIN..MAX of --nodes; both 0 if it was not given. */
int job_input_nodes(const struct args *args, uint32_t *ret_min, uint32_t *ret_max,
                    struct error *err);

#endif
