/* The flags of `submit`, `run` and `plan` that describe a job. Their rows are derived from
 * common/settings/job_field.h. Their values replace the file's in the tree of a spec.
 */
#ifndef CLI_JOB_FLAGS_H
#define CLI_JOB_FLAGS_H

#include "common/base/args.h"
#include "common/base/arena.h"
#include "common/base/tree.h"
#include "common/settings/job_field.h"

/* Elements of an array of struct args_option, each with its comma. */
#define JOB_FLAGS JOB_FIELDS(JOB_FLAG_NONE, JOB_FLAG_ROW)

#define JOB_FLAG_NONE(...)
#define JOB_FLAG_ROW(id, member, shape, key, help_, flag_, letter_, value_, ...)                   \
    {.name = flag_,                                                                                \
     .letter = letter_,                                                                            \
     .kind = JOB_FLAG_OF_##shape,                                                                  \
     .value_name = value_,                                                                         \
     .offers = job_fields[JOB_FIELD_##id].choices,                                                 \
     .help = help_},

#define JOB_FLAG_OF_TEXT     ARGS_OPTION
#define JOB_FLAG_OF_COUNT    ARGS_OPTION
#define JOB_FLAG_OF_NUMBER   ARGS_OPTION
#define JOB_FLAG_OF_RANGE    ARGS_OPTION
#define JOB_FLAG_OF_SETTING  ARGS_OPTION
#define JOB_FLAG_OF_PAIRS    ARGS_REPEATED
#define JOB_FLAG_OF_SETTINGS ARGS_REPEATED

struct job_flags {
    const struct args *args;
    struct arena *arena;
    struct tree *spec; /* a map */
    struct error *err;
};

/* Put every flag that was given into `spec`, and the shell's virtual environment into its `env`.
 * E_INVALID_ARGUMENT names the flag. */
int job_flags_apply(const struct job_flags *in);

/* N or MIN..MAX of --nodes; both 0 if it was not given. */
int job_flags_nodes(const struct args *args, uint32_t *ret_min, uint32_t *ret_max,
                    struct error *err);

#endif
