#include "common/settings/variable.h"

#include <string.h>

#include "common/base/str.h"

static const char *const reserved[] = {
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "NODE_RANK",
    "GROUP_RANK",
    "GROUP_WORLD_SIZE",
    "ROLE_RANK",
    "ROLE_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_RESTART_COUNT",
    "TORCHELASTIC_MAX_RESTARTS",
    "TORCHELASTIC_RUN_ID",
    "CUDA_VISIBLE_DEVICES",
    "MUSTER_JOB",
    "MUSTER_JOB_SETTINGS",
    "MUSTER_UID",
    "MUSTER_GENERATION",
    "MUSTER_WORKER_SOCKET",
    "MUSTER_REPORT_SOCKET",
    "MUSTER_WORKER_TOKEN",
    "MUSTER_WORKER_TOKEN_FILE",
    "MUSTER_CHECKPOINT_DIR",
    "MUSTER_RESUME_FROM",
    "MUSTER_NODE_RANK",
    "MUSTER_CORES",
    "MUSTER_SECRETS",
};

/* Read by the command line and by libworker, and no settings. */
static const char *const others[] = {"MUSTER_ADDR",        "MUSTER_TOKEN",       "MUSTER_CONFIG",
                                     "MUSTER_SECRETS_KEY", "MUSTER_KERNELS",     "MUSTER_HTTP",
                                     "MUSTER_LIBWORKER",   "MUSTER_CUDA_MODULE", "MUSTER_NCCL",
                                     "MUSTER_CUDNN",       "MUSTER_TF32"};

enum {
    RESERVED = sizeof(reserved) / sizeof(reserved[0]),
    OTHERS = sizeof(others) / sizeof(others[0]),
};

bool variable_reserved(const char *name)
{
    for (int i = 0; i < RESERVED; i++)
        if (strcmp(reserved[i], name) == 0)
            return true;
    return false;
}

int variable_setting(const char *name)
{
    char own[SETTING_ENV_MAX];
    for (int i = 0; i < SETTINGS_COUNT; i++)
        if (strcmp(setting_env_name((enum setting)i, own), name) == 0)
            return i;
    return -1;
}

static bool is_other(const char *name)
{
    for (int i = 0; i < OTHERS; i++)
        if (strcmp(others[i], name) == 0)
            return true;
    return false;
}

bool variable_unknown(const char *name, char ret_meant[SETTING_ENV_MAX])
{
    char names[SETTINGS_COUNT][SETTING_ENV_MAX];
    const char *known[SETTINGS_COUNT + RESERVED + OTHERS + 1] = {0};
    int count = 0;
    if (!str_starts(name, "MUSTER_") || variable_reserved(name) || is_other(name) ||
        variable_setting(name) >= 0)
        return false;
    for (int i = 0; i < SETTINGS_COUNT; i++)
        known[count++] = setting_env_name((enum setting)i, names[i]);
    for (int i = 0; i < RESERVED; i++)
        known[count++] = reserved[i];
    for (int i = 0; i < OTHERS; i++)
        known[count++] = others[i];
    const char *meant = str_nearest(name, known);
    (void)str_copy(ret_meant, SETTING_ENV_MAX, meant ? meant : "");
    return true;
}
