/* A job's specification, validated and in canonical units. Immutable after spec_build. The job and
 * its readers on the loop thread share it by reference count. Strings are in the spec's own
 * allocation. */
#ifndef MODEL_SPEC_H
#define MODEL_SPEC_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"

enum {
    SPEC_NAME_MAX = 63,
    SPEC_ARGS_MAX = 1024,
    SPEC_ENV_MAX = 512,
    SPEC_SECRETS_MAX = 32,
    SPEC_LABELS_MAX = 32,
    SPEC_TEXT_MAX_BYTES = 256 << 10, /* of the whole spec as JSON */
    SPEC_NODES_MAX = 10000,
    SPEC_SPARES_MAX = 64,
    SPEC_WORKERS_PER_NODE_MAX = 64,
    SPEC_PRIORITY_LIMIT = 1000,
    SPEC_RESTARTS_DEFAULT = 5,
};

enum elastic { ELASTIC_IN_PLACE, ELASTIC_RESTART, ELASTIC_OFF };

struct pair {
    const char *key;
    const char *value;
};

struct resources { /* of one worker */
    int slots;
    int cpus_milli;
    int64_t memory_bytes; /* 0 = no limit */
};

struct spec {
    int references;
    const char *json; /* the whole spec, normalised, as proto3 JSON of JobSpec: stored and shown */
    const char *name, *tenant, *workdir;
    int nodes_min, nodes_max, workers_per_node;
    int spares;     /* extra nodes reserved for a gang that has nodes_max */
    int mesh_fixed; /* cp x tp x pp, which divides the workers of nodes_min */
    int world_max;  /* limit on its workers, 0 = none */
    struct resources resources;
    int priority;
    int64_t max_runtime_ms; /* 0 = no limit */
    int restart_max;
    int64_t backoff_min_ms, backoff_max_ms;
    bool stop_without_progress;
    bool stop_on_failure; /* a failure of the program itself is not retried */
    enum elastic elastic;
    const char *checkpoint_dir; /* "" = none */
    int checkpoint_keep;        /* 0 = all */
    struct pair *constraints;
    int constraints_count;
    int secrets_count;     /* that it names; which ones is in json */
    const char *topology;  /* "" = any */
    bool resumes;          /* names the checkpoint to start from */
    const char **warnings; /* one sentence for each part without effect, or not advisable */
    int warnings_count;
};

struct spec_input { /* proto JobSpec as C values: absent strings are "" or NULL, absent numbers 0 */
    const char *json; /* the whole spec, normalised */
    const char *name, *tenant, *workdir;
    const char *const *command;
    int command_count;
    uint32_t nodes_min, nodes_max; /* both 0: 1..1 */
    uint32_t spares;
    uint32_t workers_per_node;
    uint32_t slots;
    double cpus;
    const char *memory;
    const char *priority, *max_runtime;
    bool has_restart; /* absent: 5 restarts */
    uint32_t restart_max;
    const char *backoff, *on_no_progress, *on_failure;
    const char *elastic;
    const char *checkpoint_dir, *checkpoint_every;
    uint32_t checkpoint_keep;
    const struct pair *constraints;
    int constraints_count;
    const char *topology;
    const struct pair *env;
    int env_count;
    const struct pair *secrets; /* variable -> name of a secret */
    int secrets_count;
    const struct pair *training; /* names of common/settings/setting.h and values as text */
    int training_count;
    bool stored; /* it was accepted once, perhaps under other rules: settings and env are not
                  * checked */
};

/* Validate and convert. Copies everything; the caller gets one reference. E_INVALID_ARGUMENT with
 * the field's path in the proto ("nodes.min", "restart.backoff") and a hint. */
int spec_build(const struct spec_input *input, struct spec **ret, struct error *err);

/* The spec's meaning as text: equal for specs that ask for the same, in any order and with or
 * without defaults. `in` is the input of `spec`. */
struct buf;
void spec_meaning(const struct spec *spec, const struct spec_input *in, struct buf *out);

/* A copy with another number of nodes; its json stays the submitted one. */
struct spec *spec_resize(const struct spec *spec, int nodes_min, int nodes_max);

/* Workers of a gang on `nodes` nodes. */
static inline int spec_world(const struct spec *spec, int nodes)
{
    return spec->workers_per_node * nodes;
}

struct spec *spec_hold(struct spec *spec);
void spec_release(struct spec *spec); /* NULL is allowed */

#endif
