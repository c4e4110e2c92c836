/* The meaning of a spec as text: equal for specs that ask for the same. */
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/buf.h"
#include "coordinator/model/spec.h"

/* With its length, so that no text looks like the end of one and the beginning of the next. */
static void put(struct buf *out, const char *name, const char *text)
{
    (void)buf_printf(out, "%s %zu %s\n", name, text ? strlen(text) : 0, text ? text : "");
}

static void put_number(struct buf *out, const char *name, int64_t number)
{
    (void)buf_printf(out, "%s %lld\n", name, (long long)number);
}

static int by_key(const void *a, const void *b)
{
    const struct pair *x = a, *y = b;
    int order = strcmp(x->key, y->key);
    return order ? order : strcmp(x->value, y->value);
}

static void put_pairs(struct buf *out, const char *name, const struct pair *pairs, int count)
{
    struct pair *sorted = calloc((size_t)count + 1, sizeof(*sorted));
    insist(sorted);
    if (count > 0)
        memcpy(sorted, pairs, (size_t)count * sizeof(*sorted));
    qsort(sorted, (size_t)count, sizeof(*sorted), by_key);
    put_number(out, name, count);
    for (int i = 0; i < count; i++) {
        put(out, "key", sorted[i].key);
        put(out, "value", sorted[i].value);
    }
    free(sorted);
}

/* A spec stored before this choice existed has no value: it means the default of that time. */
static bool stops_on_failure(const struct spec *spec, const struct spec_input *in)
{
    if (in->on_failure && in->on_failure[0])
        return spec->stop_on_failure;
    return spec->nodes_min == spec->nodes_max && !spec->checkpoint_dir[0] &&
           spec->restart_max == SPEC_RESTARTS_DEFAULT;
}

static void put_rules(struct buf *out, const struct spec *spec)
{
    put_number(out, "priority", spec->priority);
    put_number(out, "max_runtime", spec->max_runtime_ms);
    put_number(out, "restart.max", spec->restart_max);
    put_number(out, "restart.backoff.min", spec->backoff_min_ms);
    put_number(out, "restart.backoff.max", spec->backoff_max_ms);
    put_number(out, "restart.on_no_progress", spec->stop_without_progress);
    put_number(out, "elastic", spec->elastic);
    put(out, "checkpoint.dir", spec->checkpoint_dir);
    put_number(out, "checkpoint.keep", spec->checkpoint_keep);
    put(out, "topology", spec->topology);
}

void spec_meaning(const struct spec *spec, const struct spec_input *in, struct buf *out)
{
    put(out, "name", spec->name);
    put(out, "tenant", spec->tenant);
    put(out, "workdir", spec->workdir);
    put_number(out, "command", in->command_count);
    for (int i = 0; i < in->command_count; i++)
        put(out, "word", in->command[i]);
    put_number(out, "nodes.min", spec->nodes_min);
    put_number(out, "nodes.max", spec->nodes_max);
    put_number(out, "nodes.spares", spec->spares);
    put_number(out, "workers_per_node", spec->workers_per_node);
    put_number(out, "slots", spec->resources.slots);
    put_number(out, "cpus", spec->resources.cpus_milli);
    put_number(out, "memory", spec->resources.memory_bytes);
    put_rules(out, spec);
    put_number(out, "restart.on_failure", stops_on_failure(spec, in));
    put(out, "checkpoint.every", in->checkpoint_every);
    put_pairs(out, "constraints", spec->constraints, spec->constraints_count);
    put_pairs(out, "env", in->env, in->env_count);
    put_pairs(out, "secrets", in->secrets, in->secrets_count);
    put_pairs(out, "training", in->training, in->training_count);
}
