/* A job spec from a command line: a file, words after `--`, and flags that override the file. */
#ifndef CLI_JOB_INPUT_H
#define CLI_JOB_INPUT_H

#include "cli/client.h"
#include "cli/job_flags.h"
#include "common/base/arena.h"
#include "common/base/tree.h"
#include "proto/job.pb-c.h"

/* By its name: a spec that is not there is a mistake, not a program. */
bool job_input_is_file(const char *word);

/* The rows `submit` and `run` share. */
#define JOB_OPTIONS                                                                                \
    {.name = "file",                                                                               \
     .letter = 'f',                                                                                \
     .kind = ARGS_OPTION,                                                                          \
     .value_name = "SPEC",                                                                         \
     .help = "job spec, YAML or JSON; - reads standard input"},                                    \
        JOB_FLAGS                                                                                  \
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

#endif
