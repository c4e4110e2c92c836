/* A job's specification, validated and in canonical units. Immutable after spec_build. The job and
 * its readers on the loop thread share it by reference count. Strings are in the spec's own
 * allocation. */
#ifndef MODEL_SPEC_H
#define MODEL_SPEC_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/settings/job_field.h"
#include "coordinator/model/spec_input.h"

enum { SPEC_TEXT_MAX_BYTES = 256 << 10 }; /* of the whole spec as JSON */

enum elastic { ELASTIC_IN_PLACE, ELASTIC_RESTART, ELASTIC_OFF };

struct resources { /* of one worker */
    int slots;
    int cpus_milli;
    int64_t memory_bytes; /* 0 = no limit */
};

/* One field in canonical units: a count, bytes, ms, thousandths, or the index of a choice (-1:
 * none). `high` is that of a range. `text` is of plain texts, names, paths and intervals; else
 * NULL. */
struct spec_value {
    const char *text;
    int64_t low, high;
};

struct spec {
    int references;
    struct spec_value values[JOB_FIELDS_COUNT]; /* of texts and numbers; the rest is in json */
    const char *json; /* the whole spec, normalised, as proto3 JSON of JobSpec: stored and shown */
    const char *name, *tenant, *workdir;
    int nodes_min, nodes_max, workers_per_node;
    int spares;     /* extra nodes reserved for a gang that has nodes_max */
    int mesh_fixed; /* cp x tp x pp, which divides the workers of nodes_min */
    int world_max;  /* limit on its workers, 0 = none */
    struct resources resources;
    int priority;
    int64_t max_runtime_ms;  /* 0 = no limit */
    int64_t grace_ms;        /* between the stop signal and SIGKILL */
    int early_signal;        /* index of the choice of `signal`, sent */
    int64_t early_signal_ms; /* this long before max_runtime is over; 0 = none */
    int restart_max;
    int64_t backoff_min_ms, backoff_max_ms;
    bool stop_without_progress;
    bool stop_on_failure; /* a failure of the program itself is not retried */
    enum elastic elastic;
    const char *checkpoint_dir; /* "" = none */
    int checkpoint_keep;        /* 0 = all */
    const struct pair *constraints;
    int constraints_count;
    int secrets_count;     /* that it names; which ones is in json */
    const char *topology;  /* "" = any */
    bool resumes;          /* names the checkpoint to start from */
    const char **warnings; /* one sentence for each part without effect, or not advisable */
    int warnings_count;
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
