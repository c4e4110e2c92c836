#include "cli/sim_files.h"

#include <stdlib.h>
#include <string.h>

#include "cli/sim_draw.h"
#include "cli/sim_input.h"
#include "cli/sim_trace.h"
#include "common/base/arena.h"
#include "common/base/parse.h"
#include "common/base/str.h"
#include "common/base/tree.h"

enum { TREE_ARENA_BYTES = 512 << 20 };

static int read_yaml(const char *path, struct arena *arena, struct tree **ret, struct error *err)
{
    char *text = NULL;
    size_t size = 0;
    arena_init(arena, TREE_ARENA_BYTES);
    int rc = sim_read_text(path, &text, &size, err);
    struct tree_input input = {.name = path, .text = text, .size = size};
    input.limits = (struct tree_limits){.bytes = SIM_FILE_MAX_BYTES, .nodes = 16 << 20};
    if (!rc)
        rc = tree_parse_yaml(&input, arena, ret, err);
    free(text);
    if (rc || (*ret)->kind == TREE_MAP)
        return rc;
    tree_fail(*ret, err, "expected a map, found %s", tree_kind_name((*ret)->kind));
    return error_wrap(err, "%s", path);
}

static int known_keys(const struct tree *map, const char *const *names, struct error *err)
{
    const struct tree *child;
    if (map->kind != TREE_MAP)
        return tree_fail(map, err, "expected a map, found %s", tree_kind_name(map->kind));
    tree_each(child, map) {
        int i = 0;
        while (names[i] && strcmp(names[i], child->key) != 0)
            i++;
        if (names[i])
            continue;
        const char *near =
            strlen(child->key) <= STR_DISTANCE_LENGTH_MAX ? str_nearest(child->key, names) : NULL;
        return tree_fail(child, err, "unknown key '%.40s'%s%s", child->key,
                         near ? "; the nearest is " : "", near ? near : "");
    }
    return 0;
}

static int read_name(const struct tree *map, const char *key, char *ret, size_t size,
                     struct error *err)
{
    const struct tree *node = tree_get(map, key);
    const char *text;
    if (!node)
        return 0;
    int rc = tree_read_string(node, &text, err);
    if (!rc && str_copy(ret, size, text))
        rc = tree_fail(node, err, "longer than %zu bytes", size - 1);
    return rc;
}

static int read_count(const struct tree *map, const char *key, int *ret, struct error *err)
{
    const struct tree *node = tree_get(map, key);
    int64_t value;
    if (!node)
        return 0;
    int rc = tree_read_i64(node, &value, err);
    if (!rc && (value < 0 || value > SIM_COUNT_MAX))
        rc = tree_fail(node, err, "0 to %d", SIM_COUNT_MAX);
    if (!rc)
        *ret = (int)value;
    return rc;
}

static int read_time(const struct tree *map, const char *key, int64_t *ret_ms, struct error *err)
{
    const struct tree *node = tree_get(map, key);
    const char *text;
    if (!node)
        return 0;
    int rc = tree_read_string(node, &text, err);
    if (!rc && parse_duration(text, ret_ms, NULL))
        rc = tree_fail(node, err, "'%.40s' is no duration: 90s, 10m, 2h", text);
    return rc;
}

/* Cluster */

static int add_nodes(const struct tree *group, int number, struct rehearsal *ret, struct error *err)
{
    static const char *const keys[] = {"count", "slots", "name", "labels", NULL};
    char name[40] = "", label[NAME_LENGTH_MAX + 1] = "", value[NAME_LENGTH_MAX + 1] = "";
    int count = 1, slots = 1;
    int rc = known_keys(group, keys, err);
    if (!rc)
        rc = read_count(group, "count", &count, err);
    if (!rc)
        rc = read_count(group, "slots", &slots, err);
    if (!rc)
        rc = read_name(group, "name", name, sizeof(name), err);
    const struct tree *labels = tree_get(group, "labels");
    if (!rc && labels && (labels->kind != TREE_MAP || labels->count > 1))
        rc = tree_fail(labels, err, "expected a map with one label: a simulated node has no more");
    if (!rc && labels && tree_first(labels)) {
        (void)str_copy(label, sizeof(label), tree_first(labels)->key);
        rc = read_name(labels, label, value, sizeof(value), err);
    }
    if (!rc && ret->nodes_count + count > REHEARSAL_NODES_MAX)
        rc = tree_fail(group, err, "more than %d nodes", REHEARSAL_NODES_MAX);
    if (rc)
        return rc;
    struct rehearsal_node *nodes =
        realloc(ret->nodes, sizeof(*nodes) * (size_t)(ret->nodes_count + count + 1));
    if (!nodes)
        return error_set(err, E_RESOURCE_EXHAUSTED, "out of memory");
    ret->nodes = nodes;
    for (int i = 0; i < count; i++) {
        struct rehearsal_node *node = &nodes[ret->nodes_count++];
        *node = (struct rehearsal_node){.slots = slots};
        (void)str_printf(node->name, sizeof(node->name), "%s%d-%d", name[0] ? name : "node", number,
                         i + 1);
        (void)str_copy(node->label, sizeof(node->label), label);
        (void)str_copy(node->label_value, sizeof(node->label_value), value);
    }
    return 0;
}

static struct rehearsal_tenant *add_tenant(struct rehearsal *ret, const char *name)
{
    for (int i = 0; i < ret->tenants_count; i++)
        if (strcmp(ret->tenants[i].name, name) == 0)
            return &ret->tenants[i];
    if (ret->tenants_count >= REHEARSAL_TENANTS_MAX)
        return NULL;
    struct rehearsal_tenant *tenants =
        realloc(ret->tenants, sizeof(*tenants) * (size_t)(ret->tenants_count + 1));
    if (!tenants)
        return NULL;
    ret->tenants = tenants;
    struct rehearsal_tenant *tenant = &tenants[ret->tenants_count++];
    *tenant = (struct rehearsal_tenant){.weight = 1};
    (void)str_copy(tenant->name, sizeof(tenant->name), name);
    return tenant;
}

static int read_tenant(const struct tree *map, struct rehearsal *ret, struct error *err)
{
    static const char *const keys[] = {"name", "weight", "guaranteed", "limit", NULL};
    char name[NAME_LENGTH_MAX + 1] = "";
    int rc = known_keys(map, keys, err);
    if (!rc)
        rc = read_name(map, "name", name, sizeof(name), err);
    if (!rc && !name[0])
        rc = tree_fail(map, err, "a tenant needs a name");
    struct rehearsal_tenant *tenant = rc ? NULL : add_tenant(ret, name);
    if (!rc && !tenant)
        rc = tree_fail(map, err, "more than %d tenants", REHEARSAL_TENANTS_MAX);
    if (!rc)
        rc = read_count(map, "weight", &tenant->weight, err);
    if (!rc)
        rc = read_count(map, "guaranteed", &tenant->guaranteed_slots, err);
    if (rc)
        return rc;
    return read_count(map, "limit", &tenant->limit_slots, err);
}

static int read_cluster(const struct tree *root, struct rehearsal *ret, struct error *err)
{
    static const char *const keys[] = {"nodes", "tenants", "start", NULL};
    const struct tree *child, *nodes = tree_get(root, "nodes"),
                              *tenants = tree_get(root, "tenants");
    int number = 0;
    int rc = known_keys(root, keys, err);
    if (!rc && (!nodes || nodes->kind != TREE_LIST || !nodes->count))
        rc = tree_fail(nodes ? nodes : root, err, "nodes: a list with at least one group");
    if (!rc)
        rc = read_time(root, "start", &ret->start_ms, err);
    if (!rc)
        tree_each(child, nodes) {
            if (!rc)
                rc = add_nodes(child, ++number, ret, err);
        }
    if (!rc && tenants)
        tree_each(child, tenants) {
            if (!rc)
                rc = read_tenant(child, ret, err);
        }
    return rc;
}

int sim_read_cluster(const char *path, struct rehearsal *ret, struct error *err)
{
    struct arena arena;
    struct tree *root;
    int rc = read_yaml(path, &arena, &root, err);
    ret->start_ms = 10000;
    if (!rc && read_cluster(root, ret, err))
        rc = error_wrap(err, "%s", path);
    arena_fini(&arena);
    return rc;
}

/* Workload */

struct stream { /* the keys of a job; each job draws new values */
    struct sim_draw every, duration, nodes, min_nodes, workers, slots, priority, runtime;
    char name[40], tenant[NAME_LENGTH_MAX + 1], topology[NAME_LENGTH_MAX + 1];
    int count;
    int64_t submit_ms;
    bool has_min, has_runtime;
};

static int read_draw(const struct tree *map, const char *key, bool durations, const char *fallback,
                     struct sim_draw *ret, struct error *err)
{
    char number[FORMAT_MAX] = "";
    const struct tree *node = tree_get(map, key);
    const char *text = fallback;
    int rc = 0;
    if (node && node->kind == TREE_INTEGER)
        (void)str_printf(number, sizeof(number), "%lld", (long long)node->integer);
    else if (node)
        rc = tree_read_string(node, &text, err);
    struct error why = {0};
    if (!rc && sim_draw_parse(number[0] ? number : text, durations, ret, &why))
        rc = tree_fail(node ? node : map, err, "%s: %s (%s)", key, why.text, why.hint);
    return rc;
}

static int read_stream(const struct tree *map, bool generated, struct stream *ret,
                       struct error *err)
{
    static const char *const keys[] = {"name",     "tenant",      "submit",    "count",   "every",
                                       "duration", "nodes",       "nodes_min", "workers", "slots",
                                       "priority", "max_runtime", "topology",  NULL};
    *ret = (struct stream){.tenant = "default", .name = "job", .count = 1};
    int rc = known_keys(map, keys, err);
    if (!rc && !tree_get(map, "duration"))
        rc = tree_fail(map, err, "a job needs a duration");
    if (!rc && generated && !tree_get(map, "every"))
        rc = tree_fail(map, err, "every: how far apart they are submitted");
    const struct {
        const char *key, *fallback;
        bool durations;
        struct sim_draw *to;
    } draws[] = {
        {"every", "0", true, &ret->every},        {"duration", "0", true, &ret->duration},
        {"nodes", "1", false, &ret->nodes},       {"nodes_min", "0", false, &ret->min_nodes},
        {"workers", "1", false, &ret->workers},   {"slots", "1", false, &ret->slots},
        {"priority", "0", false, &ret->priority}, {"max_runtime", "0", true, &ret->runtime}};
    for (size_t i = 0; !rc && i < sizeof(draws) / sizeof(draws[0]); i++)
        rc = read_draw(map, draws[i].key, draws[i].durations, draws[i].fallback, draws[i].to, err);
    if (!rc)
        rc = read_time(map, "submit", &ret->submit_ms, err);
    if (!rc)
        rc = read_count(map, "count", &ret->count, err);
    if (!rc)
        rc = read_name(map, "name", ret->name, sizeof(ret->name), err);
    if (!rc)
        rc = read_name(map, "topology", ret->topology, sizeof(ret->topology), err);
    if (rc)
        return rc;
    return read_name(map, "tenant", ret->tenant, sizeof(ret->tenant), err);
}

static int draw_job(const struct stream *stream, struct rng *rng, int64_t submit_ms, int number,
                    struct rehearsal *ret, struct error *err)
{
    struct rehearsal_job *job = sim_add_job(ret, err);
    if (!job)
        return err->code;
    int min = sim_whole(sim_draw_next(&stream->min_nodes, rng), 0);
    job->submit_ms = submit_ms;
    job->duration_ms = sim_ms(sim_draw_next(&stream->duration, rng));
    job->nodes_max = sim_whole(sim_draw_next(&stream->nodes, rng), 1);
    job->nodes_min = min > 0 && min < job->nodes_max ? min : job->nodes_max;
    job->workers_per_node = sim_whole(sim_draw_next(&stream->workers, rng), 1);
    job->slots = sim_whole(sim_draw_next(&stream->slots, rng), 1);
    job->priority = sim_whole(sim_draw_next(&stream->priority, rng), -SIM_COUNT_MAX);
    job->max_runtime_ms = sim_ms(sim_draw_next(&stream->runtime, rng));
    (void)str_copy(job->tenant, sizeof(job->tenant), stream->tenant);
    (void)str_copy(job->topology, sizeof(job->topology), stream->topology);
    (void)str_printf(job->name, sizeof(job->name), stream->count > 1 ? "%s-%d" : "%s", stream->name,
                     number);
    return 0;
}

static int add_stream(const struct stream *stream, struct rng *rng, int limit,
                      struct rehearsal *ret, struct error *err)
{
    double now_ms = (double)stream->submit_ms;
    int rc = 0;
    for (int i = 0; !rc && i < stream->count && (!limit || ret->jobs_count < limit); i++) {
        rc = draw_job(stream, rng, sim_ms(now_ms), i + 1, ret, err);
        now_ms += sim_draw_next(&stream->every, rng);
    }
    return rc;
}

static int read_list(const struct tree *list, bool generated, struct rng *rng, int limit,
                     struct rehearsal *ret, struct error *err)
{
    const struct tree *child;
    struct rng own;
    int rc = list->kind == TREE_LIST ? 0 : tree_fail(list, err, "expected a list");
    struct stream *stream = calloc(1, sizeof(*stream));
    if (!stream)
        return error_set(err, E_RESOURCE_EXHAUSTED, "out of memory");
    for (child = tree_first(list); !rc && child; child = child->next) {
        rng_fork(rng, &own); /* a stream does not depend on the others */
        rc = read_stream(child, generated, stream, err);
        if (!rc)
            rc = add_stream(stream, &own, limit, ret, err);
    }
    free(stream);
    return rc;
}

static int read_jobs(const struct tree *root, int limit, struct rehearsal *ret, struct error *err)
{
    static const char *const keys[] = {"seed", "jobs", "streams", NULL};
    const struct tree *jobs = tree_get(root, "jobs"), *streams = tree_get(root, "streams");
    int seed = 1;
    struct rng rng;
    int rc = known_keys(root, keys, err);
    if (!rc)
        rc = read_count(root, "seed", &seed, err);
    rng_seed(&rng, (uint64_t)seed);
    if (!rc && jobs)
        rc = read_list(jobs, false, &rng, limit, ret, err);
    if (!rc && streams)
        rc = read_list(streams, true, &rng, limit, ret, err);
    return rc;
}

static int read_workload_yaml(const char *path, int limit, struct rehearsal *ret, struct error *err)
{
    struct arena arena;
    struct tree *root;
    int rc = read_yaml(path, &arena, &root, err);
    if (!rc && read_jobs(root, limit, ret, err))
        rc = error_wrap(err, "%s", path);
    arena_fini(&arena);
    return rc;
}

int sim_read_workload(const char *path, int limit, struct rehearsal *ret, struct error *err)
{
    int rc = str_ends(path, ".csv")   ? sim_read_csv(path, limit, ret, err)
             : str_ends(path, ".swf") ? sim_read_swf(path, limit, ret, err)
                                      : read_workload_yaml(path, limit, ret, err);
    for (int i = 0; !rc && i < ret->jobs_count; i++)
        if (!add_tenant(ret, ret->jobs[i].tenant))
            rc =
                error_set(err, E_RESOURCE_EXHAUSTED, "more than %d tenants", REHEARSAL_TENANTS_MAX);
    if (!rc && !ret->jobs_count)
        rc = error_set(err, E_INVALID_ARGUMENT, "%s has no job", path);
    return rc;
}

void sim_files_fini(struct rehearsal *rehearsal)
{
    free(rehearsal->nodes);
    free(rehearsal->tenants);
    free(rehearsal->jobs);
}
