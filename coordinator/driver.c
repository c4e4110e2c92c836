#include "coordinator/driver.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/base/assert.h"
#include "common/base/map.h"
#include "common/base/parse.h"
#include "common/base/str.h"
#include "common/env/env.h"
#include "coordinator/api_rpc/service_audit.h"
#include "coordinator/api_rpc/stored_spec.h"
#include "coordinator/boot_clock.h"
#include "coordinator/core/step.h"
#include "coordinator/forgotten_use.h"
#include "coordinator/model/cluster_pass.h"
#include "coordinator/model/tenant.h"
#include "coordinator/store/meta.h"

static int64_t now_ms(const struct driver *driver)
{
    return loop_now_ms(driver->loop);
}

static int64_t wall_ms(const struct driver *driver)
{
    return driver->env->clock.wall_ms(driver->env->clock.self);
}

/* Loading */

static int adjust_clock(struct driver *driver, struct error *err)
{
    return boot_clock_adjust(driver->store, driver->cluster, wall_ms(driver) - now_ms(driver), err);
}

struct tenants_load {
    struct cluster *cluster;
    struct error *err;
    int rc;
};

static void load_tenant(void *arg, const struct store_tenant *from)
{
    struct tenants_load *load = arg;
    struct tenant facts = {.weight = from->weight,
                           .guaranteed_slots = from->guaranteed_slots,
                           .limit_slots = from->limit_slots};
    (void)str_copy(facts.name, sizeof(facts.name), from->name);
    if (!load->rc)
        load->rc = cluster_set_tenant(load->cluster, &facts, load->err);
}

/* A restored store must not use a number that may have been used after its backup. */
static int load_first_job(struct driver *driver, struct cluster *cluster, struct error *err)
{
    char text[STORE_META_VALUE_MAX + 1];
    int64_t first = 0;
    int rc = driver->store->verbs->get_meta(driver->store, STORE_FIRST_JOB_KEY, text, err);
    if (rc == E_NOT_FOUND) {
        error_clear(err);
        return 0;
    }
    if (!rc)
        rc = parse_i64(text, 0, INT64_MAX, &first, err);
    if (!rc)
        cluster_skip_sequences(cluster, (uint64_t)first);
    return rc;
}

static int load_cluster(struct driver *driver, struct cluster *cluster, struct error *err)
{
    struct strmap specs = {0};
    struct store_loader loader = {.parse_spec = service_parse_spec, .arg = &specs};
    struct tenants_load tenants = {.cluster = cluster, .err = err};
    int rc = driver->store->verbs->list_tenants(driver->store, load_tenant, &tenants, err);
    if (!rc)
        rc = tenants.rc;
    if (!rc)
        rc = driver->store->verbs->load(driver->store, &loader, cluster, err);
    if (!rc)
        rc = load_first_job(driver, cluster, err);
    if (!rc)
        rc = forgotten_use_load(driver->store, cluster, err);
    strmap_fini(&specs);
    return rc;
}

static int load(struct driver *driver, struct error *err)
{
    uint64_t seed;
    driver->env->rng.fill(driver->env->rng.self, &seed, sizeof(seed));
    struct cluster *cluster = cluster_new(seed);
    int rc = load_cluster(driver, cluster, err);
    if (rc) {
        cluster_free(cluster);
        return rc;
    }
    cluster_free(driver->cluster);
    driver->cluster = cluster;
    driver->unreadable = false;
    return 0;
}

int driver_init(struct driver *driver, struct error *err)
{
    actions_init(&driver->actions);
    int rc = load(driver, err);
    if (!rc)
        rc = adjust_clock(driver, err);
    driver->clock_unsettled = rc == E_RESOURCE_EXHAUSTED;
    return driver->clock_unsettled ? 0 : rc;
}

void driver_fini(struct driver *driver)
{
    if (driver->loop) {
        loop_timer_cancel(driver->loop, &driver->tick);
        loop_timer_cancel(driver->loop, &driver->retry);
        loop_timer_cancel(driver->loop, &driver->pass);
        loop_timer_cancel(driver->loop, &driver->look);
    }
    retention_fini(&driver->retention);
    node_retention_fini(&driver->node_retention);
    actions_fini(&driver->actions);
    free(driver->audited);
    driver->audited = NULL;
    free(driver->changes);
    driver->changes = NULL;
    cluster_free(driver->cluster);
    driver->cluster = NULL;
}

/* Stepping */

static void step_now(struct driver *driver, struct event *event)
{
    event->now_ms = now_ms(driver);
    event->wall_ms = wall_ms(driver);
    driver->stepped = true;
    coordinator_step(driver->cluster, event, &driver->actions);
}

static void step(void *self, struct event *event)
{
    struct driver *driver = self;
    event->pass_later = true;
    if (!driver->refusing)
        step_now(driver, event);
}

static void pass_due(void *arg)
{
    (void)arg; /* the turn's end makes the pass */
}

/* When the next pass is to be made: INT64_MAX = none is wanted. */
static int64_t pass_due_ms(const struct driver *driver)
{
    if (driver->refusing)
        return INT64_MAX;
    int64_t due_ms =
        cluster_wants_pass(driver->cluster) ? 0 : cluster_front_due_ms(driver->cluster);
    return due_ms > driver->pass_after_ms ? due_ms : driver->pass_after_ms;
}

static void make_pass(struct driver *driver)
{
    const struct clock *clock = &driver->env->clock;
    struct event event = {.kind = EVENT_PASS};
    if (now_ms(driver) < pass_due_ms(driver))
        return;
    int64_t begun_ms = clock->now_ms(clock->self);
    step_now(driver, &event);
    int64_t done_ms = clock->now_ms(clock->self), gap_ms = done_ms - begun_ms;
    driver->took.pass_ms = gap_ms;
    driver->pass_after_ms = done_ms + (gap_ms > driver->pass_gap_ms ? gap_ms : driver->pass_gap_ms);
}

static void await_pass(struct driver *driver)
{
    int64_t due_ms = pass_due_ms(driver);
    if (due_ms == INT64_MAX)
        loop_timer_cancel(driver->loop, &driver->pass);
    else if (!loop_timer_armed(&driver->pass) || due_ms != driver->pass_awaited_ms)
        loop_timer_set(driver->loop, &driver->pass, due_ms, pass_due, driver);
    driver->pass_awaited_ms = due_ms;
}

static void write_change(void *self, const struct change *change)
{
    struct driver *driver = self;
    if (driver->refusing)
        return;
    driver->changes = array_reserve(driver->changes, driver->changes_count,
                                    &driver->changes_capacity, sizeof(*driver->changes));
    driver->changes[driver->changes_count++] = *change;
}

static const struct cluster *cluster_of(void *self)
{
    return ((struct driver *)self)->cluster;
}

static void refusal(const struct driver *driver, struct error *err)
{
    error_set(err, driver->why_code, "the coordinator cannot store changes: %s", driver->why);
    error_hint(err, "changes are accepted again as soon as its data directory can be written");
}

static bool writable(void *self, struct error *err)
{
    struct driver *driver = self;
    if (driver->refusing)
        refusal(driver, err);
    return !driver->refusing;
}

static bool readable(void *self, struct error *err)
{
    struct driver *driver = self;
    if (driver->unreadable)
        refusal(driver, err);
    return !driver->unreadable;
}

struct service_host driver_host(struct driver *driver)
{
    return (struct service_host){.self = driver,
                                 .cluster = cluster_of,
                                 .step = step,
                                 .write = write_change,
                                 .writable = writable,
                                 .readable = readable};
}

static void tick(void *arg)
{
    struct event event = {.kind = EVENT_TICK};
    step(arg, &event);
}

/* Storing */

/* A job or node is written once per turn, in its state at the turn's end. A node that is not known
 * then was forgotten in this turn. */
static int store_once(struct driver *driver, const struct action *action, struct strmap *seen,
                      struct error *err)
{
    char key[NAME_LENGTH_MAX + 3];
    bool is_job = action->kind == ACTION_STORE_JOB;
    (void)str_printf(key, sizeof(key), "%c/%s", is_job ? 'j' : 'n',
                     is_job ? action->job : action->node);
    if (strmap_find(seen, key))
        return 0;
    if (strmap_set(seen, key, NULL, NULL))
        return error_set(err, E_RESOURCE_EXHAUSTED, "out of memory");
    const struct store_verbs *verbs = driver->store->verbs;
    if (is_job) {
        const struct job *job = cluster_job(driver->cluster, action->job);
        insist(job);
        return verbs->put_job(driver->store, job, err);
    }
    const struct node *node = cluster_node(driver->cluster, action->node);
    return node ? verbs->put_node(driver->store, node, err)
                : verbs->forget_node(driver->store, action->node, err);
}

static int store_audit(struct driver *driver, const struct store_audit *entry, struct error *err)
{
    int rc = driver->store->verbs->put_audit(driver->store, entry, err);
    if (rc || !driver->on_audit)
        return rc;
    driver->audited = array_reserve(driver->audited, driver->audited_count,
                                    &driver->audited_capacity, sizeof(*driver->audited));
    driver->audited[driver->audited_count++] = *entry;
    return 0;
}

static int store_action(struct driver *driver, const struct action *action, struct strmap *seen,
                        struct error *err)
{
    struct store_audit entry;
    uint64_t seq;
    int rc;
    switch (action->kind) {
    case ACTION_STORE_JOB:
    case ACTION_STORE_NODE:
        return store_once(driver, action, seen, err);
    case ACTION_FORGET_NODE:
        rc = store_once(driver, action, seen, err);
        if (rc)
            return rc;
        service_audit_forgotten(driver->service, action, &entry);
        return store_audit(driver, &entry, err);
    case ACTION_RECORD:
        return driver->store->verbs->record(driver->store, action->record, &seq, err);
    case ACTION_ANSWER:
        return service_audit(driver->service, action, &entry) ? store_audit(driver, &entry, err)
                                                              : 0;
    case ACTION_NODE_CHANGED:
    case ACTION_JOB_CHANGED:
    case ACTION_WAKE_AT:
        return 0;
    }
    return 0;
}

static int store_change(struct driver *driver, const struct change *change, struct error *err)
{
    const struct store_verbs *verbs = driver->store->verbs;
    switch (change->kind) {
    case CHANGE_TOKEN:
        return verbs->put_token(driver->store, &change->token, err);
    case CHANGE_TENANT:
        return verbs->put_tenant(driver->store, &change->tenant, err);
    case CHANGE_SECRET:
        return service_store_secret(driver->service, change, err);
    case CHANGE_AUDIT:
        return change->folded ? 0 : store_audit(driver, &change->audit, err);
    }
    return 0;
}

static bool durable(const struct action *action)
{
    return action->kind == ACTION_STORE_JOB || action->kind == ACTION_STORE_NODE ||
           action->kind == ACTION_FORGET_NODE || action->kind == ACTION_RECORD;
}

/* Events first: the state stored after them is that after the last event. */
static int store_actions(struct driver *driver, struct error *err)
{
    struct strmap seen = {0};
    int rc = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; !rc && i < driver->actions.count; i++)
            if ((driver->actions.items[i].kind == ACTION_RECORD) == (pass == 0))
                rc = store_action(driver, &driver->actions.items[i], &seen, err);
    strmap_fini(&seen);
    return rc;
}

/* Without a mark an older copy of the store could pass for it; see store_guard.h. */
static void mark(struct driver *driver)
{
    const struct store_verbs *verbs = driver->store->verbs;
    if (!verbs->mark || now_ms(driver) < driver->mark_after_ms)
        return;
    verbs->mark(driver->store);
    driver->mark_after_ms = now_ms(driver) + DRIVER_MARK_MS;
}

static bool anything_to_store(const struct driver *driver)
{
    for (int i = 0; i < driver->changes_count; i++)
        if (!driver->changes[i].folded)
            return true;
    for (int i = 0; i < driver->actions.count; i++)
        if (durable(&driver->actions.items[i]))
            return true;
    return false;
}

static int commit(struct driver *driver, struct error *err)
{
    if (!anything_to_store(driver))
        return 0;
    int64_t begun_ms = loop_clock_ms(driver->loop);
    const struct store_verbs *verbs = driver->store->verbs;
    int rc = verbs->begin(driver->store, err);
    if (!rc)
        rc = store_actions(driver, err);
    for (int i = 0; !rc && i < driver->changes_count; i++)
        rc = store_change(driver, &driver->changes[i], err);
    if (!rc)
        rc = verbs->commit(driver->store, err);
    if (rc)
        verbs->rollback(driver->store);
    else
        mark(driver);
    for (int i = 0; !rc && i < driver->audited_count; i++)
        driver->on_audit(driver->on_audit_arg, &driver->audited[i]);
    driver->audited_count = 0;
    driver->took.commit_ms = loop_clock_ms(driver->loop) - begun_ms;
    return rc;
}

static void perform(struct driver *driver)
{
    bool recorded = false;
    if (driver->stepped || driver->changes_count > 0)
        service_changed(driver->service);
    driver->stepped = false;
    for (int i = 0; i < driver->actions.count; i++) {
        const struct action *action = &driver->actions.items[i];
        recorded |= action->kind == ACTION_RECORD;
        if (action->kind != ACTION_WAKE_AT)
            service_perform(driver->service, action);
        else if (action->at_ms == INT64_MAX)
            loop_timer_cancel(driver->loop, &driver->tick);
        else
            loop_timer_set(driver->loop, &driver->tick, action->at_ms, tick, driver);
    }
    for (int i = 0; i < driver->changes_count; i++)
        if (driver->changes[i].request)
            service_written(driver->service, &driver->changes[i]);
    driver->changes_count = 0;
    if (recorded)
        service_events_recorded(driver->service);
    actions_clear(&driver->actions);
}

/* After a failed write */

static void retry(void *arg);

static void refuse_from_now(struct driver *driver, const struct error *why)
{
    struct error err = {0};
    (void)str_copy(driver->why, sizeof(driver->why), why->text);
    driver->why_code = why->code == E_RESOURCE_EXHAUSTED ? E_RESOURCE_EXHAUSTED : E_UNAVAILABLE;
    if (!driver->refusing)
        log_error(driver->log, "cannot store changes: they are refused until it works again",
                  log_str("error", why->text));
    driver->refusing = true;
    refusal(driver, &err);
    for (int i = 0; i < driver->actions.count; i++)
        if (driver->actions.items[i].kind == ACTION_ANSWER)
            service_fail_request(driver->service, driver->actions.items[i].request, &err);
    for (int i = 0; i < driver->changes_count; i++)
        if (driver->changes[i].request)
            service_fail_request(driver->service, driver->changes[i].request, &err);
    driver->changes_count = 0;
    actions_clear(&driver->actions);
    loop_timer_cancel(driver->loop, &driver->tick);
    loop_timer_set(driver->loop, &driver->retry, now_ms(driver) + DRIVER_RETRY_MS, retry, driver);
    driver->unreadable = true; /* until it is loaded: memory may be ahead of the disk */
    if (load(driver, &err))
        log_error(driver->log, "cannot read the store either", log_str("error", err.text));
    service_everything_changed(driver->service);
}

static int probe(struct driver *driver, struct error *err)
{
    const struct store_verbs *verbs = driver->store->verbs;
    char text[32];
    (void)str_printf(text, sizeof(text), "%lld", (long long)wall_ms(driver));
    int rc = verbs->begin(driver->store, err);
    if (!rc)
        rc = verbs->put_meta(driver->store, "probe", text, err);
    if (!rc)
        rc = verbs->commit(driver->store, err);
    if (rc)
        verbs->rollback(driver->store);
    return rc;
}

static void retry(void *arg)
{
    struct driver *driver = arg;
    struct error err = {0};
    int rc = probe(driver, &err);
    if (!rc)
        rc = load(driver, &err);
    if (!rc)
        rc = adjust_clock(driver, &err);
    if (rc) {
        refuse_from_now(driver, &err);
        return;
    }
    driver->refusing = false;
    log_info(driver->log, "changes can be stored again");
    struct event event = {.kind = EVENT_RESTORED};
    step_now(driver, &event);
    service_everything_changed(driver->service);
}

/* Notices the removal of a store's file also while nothing is written to it. */
static void look(void *arg)
{
    struct driver *driver = arg;
    struct error err = {0};
    if (!driver->refusing && driver->store->verbs->look(driver->store, &err) < 0)
        refuse_from_now(driver, &err);
    if (!driver->refusing)
        mark(driver);
    loop_timer_set(driver->loop, &driver->look, now_ms(driver) + DRIVER_LOOK_MS, look, driver);
}

static void refuse_at_start(struct driver *driver, struct error *err)
{
    struct error why = *err;
    error_clear(err);
    refuse_from_now(driver, &why);
}

static void connect_retention(struct driver *driver)
{
    struct retention *retention = &driver->retention;
    retention->env = driver->env;
    retention->loop = driver->loop;
    retention->store = driver->store;
    retention->service = driver->service;
    retention->log = driver->log;
    retention->data_dir = driver->data_dir;
    driver->node_retention.loop = driver->loop;
    driver->node_retention.host = driver_host(driver);
    driver->node_retention.ages = retention;
}

int driver_start(struct driver *driver, struct error *err)
{
    struct event event = {.kind = EVENT_RESTORED};
    connect_retention(driver);
    retention_compare_clock(&driver->retention);
    int rc = driver->clock_unsettled
                 ? error_set(err, E_RESOURCE_EXHAUSTED, "write job: database or disk is full")
                 : 0;
    if (!rc) {
        step_now(driver, &event);
        rc = commit(driver, err);
    }
    if (rc && rc != E_RESOURCE_EXHAUSTED)
        return rc;
    if (rc) /* a full disk: the stored state is readable, and changes wait for space */
        refuse_at_start(driver, err);
    else
        perform(driver);
    retention_start(&driver->retention);
    node_retention_start(&driver->node_retention);
    if (driver->store->verbs->look)
        look(driver);
    return 0;
}

void driver_turn_end(void *arg)
{
    struct driver *driver = arg;
    struct error err = {0};
    driver->took.pass_ms = driver->took.commit_ms = 0;
    make_pass(driver);
    if (commit(driver, &err))
        refuse_from_now(driver, &err);
    else
        perform(driver);
    /* Performing actions may have stepped: their jobs are still needed. */
    if (driver->actions.count == 0 && !driver->refusing &&
        retention_turn_end(&driver->retention, driver->cluster, &err))
        refuse_from_now(driver, &err);
    service_turn_end(driver->service);
    await_pass(driver);
}

void driver_slow_turn(void *arg, const struct loop_turn *turn)
{
    const struct driver *driver = arg;
    int64_t pass_ms = driver->took.pass_ms, commit_ms = driver->took.commit_ms;
    log_warn(driver->log, "a turn of the coordinator was slow: nothing was answered meanwhile",
             log_int("timers_ms", turn->timers_ms), log_int("posts_ms", turn->posts_ms),
             log_int("requests_ms", turn->descriptors_ms), log_int("planning_ms", pass_ms),
             log_int("storing_ms", commit_ms),
             log_int("answering_ms", turn->end_ms - pass_ms - commit_ms));
}
