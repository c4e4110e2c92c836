/* Environment variables for HuggingFace Accelerate, from a job's `training`. accelerate 1.15 reads
 * them instead of its config file (accelerator.py, state.py, parallelism_config.py, and
 * FullyShardedDataParallelPlugin in utils/dataclasses.py). docs/accelerate.md describes this table.
 * Pure; any thread. */
#ifndef SETTINGS_ACCELERATE_H
#define SETTINGS_ACCELERATE_H

#include "common/settings/setting.h"

enum { ACCELERATE_MAX = 20, ACCELERATE_VALUE_MAX = 32 };

struct accelerate_variable {
    const char *name; /* static */
    char value[ACCELERATE_VALUE_MAX];
};

/* The variables for a worker of a gang of `world`; returns their number. `given` has each setting's
 * value as text, NULL if not set. Without `gpus` there is no parallelism config, because Accelerate
 * always trains under DDP on CPUs and refuses one. */
int accelerate_variables(const char *const given[SETTINGS_COUNT], int64_t world, bool gpus,
                         struct accelerate_variable ret[ACCELERATE_MAX]);

/* A sentence naming the settings that none of those variables expresses; else how a program follows
 * `resume_from`; "" if there are none. For a job with a command that runs Python: other programs
 * read settings through libworker. */
enum { ACCELERATE_TEXT_MAX = 320 };
void accelerate_untold(const char *const given[SETTINGS_COUNT], char ret[ACCELERATE_TEXT_MAX]);

/* True if a command begins with Python, a Python script or one of its launchers. */
bool accelerate_may_run(const char *const *command, int count);

#endif
