/* What HuggingFace Accelerate is told of a job's `training`: the variables that accelerate 1.15
 * reads in place of its config file (accelerator.py, state.py, parallelism_config.py, and
 * FullyShardedDataParallelPlugin in utils/dataclasses.py). docs/accelerate.md is this table in
 * words. Pure; any thread.
 */
#ifndef SETTINGS_ACCELERATE_H
#define SETTINGS_ACCELERATE_H

#include "common/settings/setting.h"

enum { ACCELERATE_MAX = 20, ACCELERATE_VALUE_MAX = 32 };

struct accelerate_variable {
    const char *name; /* static */
    char value[ACCELERATE_VALUE_MAX];
};

/* For a worker of a gang of `world`; `given` has each setting's value as text, NULL where nobody
 * said one. Without `gpus` there is no parallelism config: Accelerate trains under DDP on CPUs,
 * whatever it is told, and refuses one. Returns how many there are. */
int accelerate_variables(const char *const given[SETTINGS_COUNT], int64_t world, bool gpus,
                         struct accelerate_variable ret[ACCELERATE_MAX]);

/* A sentence that names what was given and none of those variables says, "" if there is nothing.
 * For a job whose command runs Python: another program reads settings by libworker. */
enum { ACCELERATE_TEXT_MAX = 320 };
void accelerate_untold(const char *const given[SETTINGS_COUNT], char ret[ACCELERATE_TEXT_MAX]);

/* Whether a command begins with Python, a script of it or one of its launchers. */
bool accelerate_may_run(const char *const *command, int count);

#endif
