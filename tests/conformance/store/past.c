/* Past states: random changes are stored, and after each commit what load and list_tenants give is
 * written down. At the end every state must come back from the past, page by page, as it was. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/map.h"
#include "common/base/rng.h"
#include "common/base/str.h"
#include "coordinator/model/cluster_walk.h"
#include "coordinator/store/document.h"
#include "tests/conformance/store/suite.h"

enum { COMMITS = 120, STATES_MAX = 512, JOBS = 20, NODES = 3, PAGE = 7 };

struct states {
    struct strmap at[STATES_MAX]; /* "job 7" -> document, by event */
    uint64_t last;
};

static int parse_spec(void *arg, const char *json, struct spec **ret, struct error *err)
{
    static const char *const command[] = {"true"};
    struct spec_input input = {.json = json, .name = "past", .command = command};
    (void)arg;
    input.command_count = 1;
    return spec_build(&input, ret, err);
}

static const struct store_loader loader = {.parse_spec = parse_spec};

static void set(struct strmap *map, const char *kind, const char *name, char *text)
{
    char key[96];
    void *old = NULL;
    snprintf(key, sizeof(key), "%s %s", kind, name);
    cr_assert_eq(strmap_set(map, key, text, &old), 0);
    free(old);
}

static char *job_text(const struct job *job)
{
    struct buf buf;
    size_t size;
    buf_init(&buf, DOCUMENT_MAX_BYTES);
    cr_assert_eq(document_write_job(job, &buf, NULL), 0);
    char *text = buf_take(&buf, &size);
    buf_fini(&buf);
    return text;
}

static char *node_text(const struct node *node)
{
    struct buf buf;
    size_t size;
    buf_init(&buf, DOCUMENT_MAX_BYTES);
    cr_assert_eq(document_write_node(node, &buf, NULL), 0);
    char *text = buf_take(&buf, &size);
    buf_fini(&buf);
    return text;
}

/* As written by either store. */
static char *tenant_text(const struct store_tenant *tenant)
{
    struct buf buf;
    size_t size;
    buf_init(&buf, DOCUMENT_MAX_BYTES);
    cr_assert_eq(document_write_tenant(tenant, &buf, NULL), 0);
    char *text = buf_take(&buf, &size);
    buf_fini(&buf);
    return text;
}

static void see_tenant(void *arg, const struct store_tenant *tenant)
{
    set(arg, "tenant", tenant->name, tenant_text(tenant));
}

static void write_down(struct store_world *world, struct states *states)
{
    struct strmap *map = &states->at[states->last];
    struct cluster *cluster = cluster_new(1);
    strmap_free_values(map);
    cr_assert_eq(world->store->verbs->load(world->store, &loader, cluster, NULL), 0);
    for (const struct job *job = cluster_first_job(cluster); job;
         job = cluster_next_job(cluster, job))
        set(map, "job", job->id, job_text(job));
    for (const struct node *node = cluster_first_node(cluster); node;
         node = cluster_next_node(cluster, node))
        set(map, "node", node->name, node_text(node));
    cr_assert_eq(world->store->verbs->list_tenants(world->store, see_tenant, map, NULL), 0);
    cluster_free(cluster);
}

static void put_some_job(struct store *store, struct rng *rng, bool gone[JOBS + 1])
{
    struct error err = {0};
    uint64_t sequence = rng_below(rng, JOBS) + 1;
    if (gone[sequence])
        return;
    if (rng_chance(rng, 0.15)) {
        gone[sequence] = true;
        cr_assert_eq(store->verbs->forget_job(store, sequence, &err), 0);
        return;
    }
    struct job *job = calloc(1, sizeof(*job));
    snprintf(job->id, sizeof(job->id), "j%llu", (unsigned long long)sequence);
    job->sequence = sequence;
    job->step = rng_below(rng, 1000);
    job->reason.rank = -1;
    cr_assert_eq(parse_spec(NULL, "{\"name\":\"past\"}", &job->spec, NULL), 0);
    cr_assert_eq(store->verbs->put_job(store, job, &err), 0, "%s", err.text);
    job_free(job);
}

static void put_some_node(struct store *store, struct rng *rng)
{
    struct node *node = calloc(1, sizeof(*node));
    snprintf(node->name, sizeof(node->name), "n%d", (int)rng_below(rng, NODES));
    node->slots = (int)rng_below(rng, 8);
    node->reason.rank = -1;
    if (rng_chance(rng, 0.2)) /* it comes back, or was not there */
        cr_assert_eq(store->verbs->forget_node(store, node->name, NULL), 0);
    else
        cr_assert_eq(store->verbs->put_node(store, node, NULL), 0);
    free(node);
}

static void put_some_tenant(struct store *store, struct rng *rng)
{
    struct store_tenant tenant = {.weight = (int)rng_between(rng, 1, 9), .created_wall_ms = 5};
    snprintf(tenant.name, sizeof(tenant.name), "t%d", (int)rng_below(rng, 2));
    cr_assert_eq(store->verbs->put_tenant(store, &tenant, NULL), 0);
}

/* Some transactions tell of events, some change things without, some do neither or are undone. */
static void change_something(struct store_world *world, struct rng *rng, struct states *states,
                             bool gone[JOBS + 1])
{
    struct store *store = world->store;
    uint64_t seq = states->last;
    bool before[JOBS + 1], undone = rng_chance(rng, 0.1);
    memcpy(before, gone, sizeof(before));
    cr_assert_eq(store->verbs->begin(store, NULL), 0);
    for (int i = (int)rng_below(rng, 4); i > 0; i--) {
        struct record record = {.wall_ms = 1000 + (int64_t)seq, .kind = "some", .reason.rank = -1};
        cr_assert_eq(store->verbs->record(store, &record, &seq, NULL), 0);
    }
    for (int i = (int)rng_below(rng, 5); i > 0; i--)
        put_some_job(store, rng, gone);
    if (rng_chance(rng, 0.4))
        put_some_node(store, rng);
    if (rng_chance(rng, 0.2))
        put_some_tenant(store, rng);
    if (undone) {
        store->verbs->rollback(store);
        memcpy(gone, before, sizeof(before));
        return;
    }
    cr_assert_eq(store->verbs->commit(store, NULL), 0);
    states->last = seq;
}

struct reading {
    struct strmap got;
    enum store_past_kind kind;
    struct store_past_query query;
    int read;
    bool newest;
    char after[STORE_TENANT_MAX + 1];
};

static char *again(const struct reading *reading, const struct store_past *past, char name[64])
{
    size_t size = strlen(past->document);
    char *text = NULL;
    struct job *job = calloc(1, sizeof(*job));
    struct node *node = calloc(1, sizeof(*node));
    struct store_tenant tenant = {0};
    snprintf(name, 64, "%s", past->name);
    if (reading->kind == STORE_PAST_JOB) {
        cr_assert_eq(document_read_job(past->document, size, job, NULL), 0);
        cr_assert_str_eq(past->spec, "{\"name\":\"past\"}");
        snprintf(name, 64, "%s", job->id);
        text = job_text(job);
    } else if (reading->kind == STORE_PAST_NODE) {
        cr_assert_eq(document_read_node(past->document, size, node, NULL), 0);
        text = node_text(node);
    } else {
        cr_assert_eq(document_read_tenant(past->document, size, &tenant, NULL), 0);
        text = tenant_text(&tenant);
    }
    job_free(job);
    free(node);
    return text;
}

static void see_past(void *arg, const struct store_past *past)
{
    static const char *const kinds[] = {
        [STORE_PAST_NODE] = "node", [STORE_PAST_TENANT] = "tenant", [STORE_PAST_JOB] = "job"};
    struct reading *reading = arg;
    char name[64];
    reading->read++;
    reading->query.after_sequence = past->sequence;
    (void)str_copy(reading->after, sizeof(reading->after), past->name);
    if (reading->newest)
        cr_assert_str_eq(past->document, past->now);
    if (!past->document[0])
        return;
    char *text = again(reading, past, name);
    set(&reading->got, kinds[reading->kind], name, text);
}

static void read_kind(struct store_world *world, struct reading *reading)
{
    struct error err = {0};
    reading->after[0] = 0;
    reading->query.kind = reading->kind;
    reading->query.after = reading->after;
    reading->query.after_sequence = 0;
    reading->query.limit = PAGE;
    do {
        reading->read = 0;
        cr_assert_eq(
            world->store->verbs->list_past(world->store, &reading->query, see_past, reading, &err),
            0, "%s", err.text);
    } while (reading->read == PAGE);
}

static void compare(struct store_world *world, struct states *states, uint64_t seq)
{
    struct strmap *want = &states->at[seq];
    struct reading reading = {.query.seq = seq, .newest = seq == states->last};
    static const enum store_past_kind kinds[] = {STORE_PAST_NODE, STORE_PAST_TENANT,
                                                 STORE_PAST_JOB};
    for (int i = 0; i < 3; i++) {
        reading.kind = kinds[i];
        read_kind(world, &reading);
    }
    cr_assert_eq(strmap_count(&reading.got), strmap_count(want), "event %d", (int)seq);
    for (struct map_entry *e = strmap_first(want); e; e = map_next(e)) {
        const char *got = strmap_get(&reading.got, e->name);
        cr_assert(got, "%s is missing at event %d", e->name, (int)seq);
        cr_assert_str_eq(got, e->value, "%s at event %d", e->name, (int)seq);
    }
    strmap_free_values(&reading.got);
}

void past_states_come_back(struct store_world *world)
{
    static struct states states;
    static bool known[STATES_MAX], gone[JOBS + 1];
    struct rng rng;
    struct store_past_range range;
    struct store_past_query beyond = {.kind = STORE_PAST_JOB, .limit = 1};
    memset(&states, 0, sizeof(states));
    memset(known, 0, sizeof(known));
    memset(gone, 0, sizeof(gone));
    rng_seed(&rng, 7);
    for (int i = 0; i < COMMITS; i++) {
        change_something(world, &rng, &states, gone);
        write_down(world, &states);
        known[states.last] = true;
        if (i == COMMITS / 2)
            world->reopen(world);
    }
    cr_assert_eq(world->store->verbs->past_range(world->store, 1010, &range, NULL), 0);
    cr_assert_eq(range.first, 0);
    cr_assert_eq(range.last, states.last);
    cr_assert_eq(range.at, 11, "event n was told of at %d + n - 1", 1000);
    for (uint64_t seq = 0; seq <= states.last; seq++) {
        if (known[seq])
            compare(world, &states, seq);
        strmap_free_values(&states.at[seq]);
    }
    beyond.seq = states.last + 1;
    cr_assert_eq(world->store->verbs->list_past(world->store, &beyond, see_past, NULL, NULL),
                 E_OUT_OF_RANGE);
}
