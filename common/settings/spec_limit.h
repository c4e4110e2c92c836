/* How large the parts of a job's specification may be. Constant. */
#ifndef SETTINGS_SPEC_LIMIT_H
#define SETTINGS_SPEC_LIMIT_H

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
    SPEC_GRACE_MAX_MS = 2 * 3600 * 1000,
};

#endif
