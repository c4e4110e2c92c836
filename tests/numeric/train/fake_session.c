#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <worker/error.h>

#include "common/base/str.h"
#include "libworker/checkpoint/write.h"
#include "tests/numeric/train/fake_session.h"

struct fake {
    struct session base;
    struct fake_cluster *cluster;
    int worker;
    uint64_t generation; /* joined last */
};

static struct fake_cluster *enter(struct session *session)
{
    struct fake_cluster *cluster = ((struct fake *)session)->cluster;
    pthread_mutex_lock(&cluster->lock);
    return cluster;
}

static void leave(struct fake_cluster *cluster)
{
    pthread_mutex_unlock(&cluster->lock);
}

static int rank_of(const struct fake_cluster *cluster, int worker)
{
    for (int i = 0; i < cluster->n_members; i++)
        if (cluster->members[i] == worker)
            return i;
    return -1;
}

static bool complete(const struct fake_cluster *cluster)
{
    for (int i = 0; i < cluster->n_members; i++)
        if (!cluster->joined[i])
            return false;
    return true;
}

static int fill(const struct fake_cluster *cluster, int rank, struct session_group *ret,
                struct error *err)
{
    int rc = session_group_init(ret, cluster->n_members, err);
    if (rc)
        return rc;
    for (int i = 0; i < cluster->n_members; i++) {
        (void)str_copy(ret->endpoints[i], COMM_ENDPOINT_BYTES, cluster->endpoints[i]);
        ret->hosts[i] = cluster->per_host ? cluster->members[i] / cluster->per_host : 0;
    }
    ret->generation = cluster->generation;
    ret->rank = rank;
    ret->local_world = cluster->n_members;
    memset(ret->secret, (int)cluster->generation, sizeof(ret->secret));
    (void)str_copy(ret->resume_from, sizeof(ret->resume_from), cluster->resume_from);
    return 0;
}

/* Counted, since a process that is killed in here never leaves it (fake_fini). */
static void await_change(struct fake_cluster *cluster)
{
    cluster->waiting++;
    pthread_cond_wait(&cluster->changed, &cluster->lock);
    cluster->waiting--;
}

static int fake_join(struct session *session, const char *endpoint, uint64_t above,
                     struct session_group *ret, struct error *err)
{
    int worker = ((struct fake *)session)->worker;
    struct fake_cluster *cluster = enter(session);
    int rc;
    for (;;) {
        int rank = rank_of(cluster, worker);
        if (cluster->stopping || cluster->stops[worker]) {
            rc = error_set(err, WK_ESTOPPED, "asked to stop");
            break;
        }
        if (cluster->generation > above && rank >= 0 && !cluster->joined[rank]) {
            cluster->joined[rank] = true;
            (void)str_copy(cluster->endpoints[rank], COMM_ENDPOINT_BYTES, endpoint);
            pthread_cond_broadcast(&cluster->changed);
        }
        if (cluster->generation > above && rank >= 0 && complete(cluster)) {
            rc = fill(cluster, rank, ret, err);
            ((struct fake *)session)->generation = cluster->generation;
            break;
        }
        await_change(cluster);
    }
    leave(cluster);
    return rc;
}

static uint64_t fake_target(struct session *session)
{
    const struct fake *fake = (struct fake *)session;
    struct fake_cluster *cluster = enter(session);
    /* Whom it goes on without is not told of it. */
    bool member = rank_of(cluster, fake->worker) >= 0;
    uint64_t generation = member ? cluster->generation : fake->generation;
    leave(cluster);
    return generation;
}

static bool fake_stopping(struct session *session, int64_t *ret_grace_ms)
{
    int worker = ((struct fake *)session)->worker;
    struct fake_cluster *cluster = enter(session);
    bool stopping = cluster->stopping || cluster->stops[worker];
    *ret_grace_ms = cluster->grace_ms;
    leave(cluster);
    return stopping;
}

static void fake_progress(struct session *session, const struct session_step *step)
{
    struct fake_cluster *cluster = enter(session);
    cluster->total_steps = step->total_steps;
    if (step->step > cluster->last_step)
        cluster->last_step = step->step;
    pthread_cond_broadcast(&cluster->changed);
    leave(cluster);
}

static void fake_metric(struct session *session, int64_t step, const char *name, double value)
{
    (void)session;
    (void)step;
    (void)name;
    (void)value;
}

static void fake_lost(struct session *session, uint64_t generation, const int *ranks, int n_ranks)
{
    (void)ranks;
    (void)n_ranks;
    struct fake_cluster *cluster = enter(session);
    cluster->lost_reports++;
    pthread_cond_broadcast(&cluster->changed);
    if (cluster->on_lost && generation == cluster->generation)
        cluster->on_lost(cluster);
    leave(cluster);
}

static int fake_commit(struct session *session, bool done, const struct checkpoint_claim *claim,
                       struct error *err)
{
    struct fake_cluster *cluster = enter(session);
    int rc = 0;
    if (cluster->fail_commits > 0) {
        cluster->fail_commits--;
        rc = error_set(err, cluster->fail_code, "the test wants no commit");
    } else if (!done &&
               (cluster->refuse_prepares > 0 || claim->generation != cluster->generation)) {
        cluster->refuse_prepares--;
        rc = error_set(err, WK_EABORT, "generation is over");
    } else if (done) {
        cluster->commits++;
        (void)str_copy(cluster->resume_from, sizeof(cluster->resume_from), claim->path);
    }
    leave(cluster);
    return rc;
}

static void fake_free(struct session *session)
{
    struct fake_cluster *cluster = enter(session);
    bool member = ((struct fake *)session)->generation == cluster->generation;
    if (member && cluster->on_lost && cluster->last_step < cluster->total_steps)
        cluster->on_lost(cluster);
    leave(cluster);
    free(session);
}

static const struct session_ops ops = {fake_join,     fake_target, fake_stopping,
                                       fake_progress, fake_metric, fake_lost,
                                       fake_commit,   fake_free,   NULL};

struct session *fake_session(struct fake_cluster *cluster, int worker)
{
    struct fake *fake = calloc(1, sizeof(*fake));
    if (!fake)
        abort();
    *fake = (struct fake){{.ops = &ops}, cluster, worker};
    return &fake->base;
}

void fake_init(struct fake_cluster *cluster)
{
    pthread_mutexattr_t lock;
    pthread_condattr_t changed;
    *cluster = (struct fake_cluster){.grace_ms = 60000};
    pthread_mutexattr_init(&lock);
    pthread_mutexattr_setpshared(&lock, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&cluster->lock, &lock);
    pthread_mutexattr_destroy(&lock);
    pthread_condattr_init(&changed);
    pthread_condattr_setpshared(&changed, PTHREAD_PROCESS_SHARED);
    pthread_cond_init(&cluster->changed, &changed);
    pthread_condattr_destroy(&changed);
}

/* pthread_cond_destroy waits for those that wait, for ever if they are dead. */
void fake_fini(struct fake_cluster *cluster)
{
    if (cluster->waiting) {
        fprintf(stderr, "%d ranks were killed while they waited to join\n", cluster->waiting);
        abort();
    }
    pthread_cond_destroy(&cluster->changed);
    pthread_mutex_destroy(&cluster->lock);
}

void fake_form_locked(struct fake_cluster *cluster, const int *workers, int n)
{
    cluster->generation++;
    cluster->n_members = n;
    memcpy(cluster->members, workers, sizeof(int) * (size_t)n);
    memset(cluster->joined, 0, sizeof(cluster->joined));
    pthread_cond_broadcast(&cluster->changed);
}

void fake_form(struct fake_cluster *cluster, const int *workers, int n)
{
    pthread_mutex_lock(&cluster->lock);
    fake_form_locked(cluster, workers, n);
    pthread_mutex_unlock(&cluster->lock);
}

void fake_await_loss(struct fake_cluster *cluster)
{
    pthread_mutex_lock(&cluster->lock);
    while (!cluster->lost_reports)
        await_change(cluster);
    pthread_mutex_unlock(&cluster->lock);
}

void fake_stop_one(struct fake_cluster *cluster, int worker)
{
    pthread_mutex_lock(&cluster->lock);
    cluster->stops[worker] = true;
    pthread_cond_broadcast(&cluster->changed);
    pthread_mutex_unlock(&cluster->lock);
}

void fake_stop(struct fake_cluster *cluster)
{
    pthread_mutex_lock(&cluster->lock);
    cluster->stopping = true;
    pthread_cond_broadcast(&cluster->changed);
    pthread_mutex_unlock(&cluster->lock);
}
