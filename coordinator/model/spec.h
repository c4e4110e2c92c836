/* A job as its submitter wants it, validated and in canonical units. Immutable after
 * spec_finish; shared by reference count between the job and those who read it on the loop thread.
 * Strings live in the spec's own allocation.
 */
#ifndef MODEL_SPEC_H
#define MODEL_SPEC_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"

enum {
    SPEC_NAME_MAX = 63,
    SPEC_ARGS_MAX = 1024,
    SPEC_ENV_MAX = 512,
    SPEC_LABELS_MAX = 32,
    SPEC_TEXT_MAX_BYTES = 256 << 10, /* of the whole spec as JSON */
    SPEC_NODES_MAX = 10000,
    SPEC_WORKERS_PER_NODE_MAX = 64,
    SPEC_PRIORITY_LIMIT = 1000,
};

enum elastic { ELASTIC_IN_PLACE, ELASTIC_RESTART, ELASTIC_OFF };

struct pair {
    const char *key;
    const char *value;
};

struct resources { /* of one worker */
    int slots;
    int cpus_milli;
    int64_t memory_bytes; /* 0 = not limited */
};

struct spec {
    int references;
    const char *json; /* the whole spec, normalised, as proto3 JSON of JobSpec: stored and shown */
    const char *name, *tenant, *workdir;
    int nodes_min, nodes_max, workers_per_node;
    struct resources resources;
    int priority;
    int64_t max_runtime_ms; /* 0 = not limited */
    int restart_max;
    int64_t backoff_min_ms, backoff_max_ms;
    bool stop_without_progress;
    enum elastic elastic;
    const char *checkpoint_dir; /* "" = none */
    int checkpoint_keep;        /* 0 = all */
    struct pair *constraints;
    int constraints_count;
    const char *topology; /* "" = any */
};

struct spec *spec_hold(struct spec *spec);
void spec_release(struct spec *spec); /* NULL is fine */

#endif
