/* The lost peers of a worker. The agent keeps reports in memory only and may end before the
 * coordinator has them, so an answer proves nothing. The loss is reported again until a newer
 * generation is known. */
#include <string.h>

#include "libworker/session/session_rpc.h"
#include "proto/worker.pb-c.h"

enum { LOST_AGAIN_MS = 2000 };

static void report_lost(void *arg);

static void report_later(struct session_rpc *s, int64_t delay_ms)
{
    loop_timer_set(s->hub.loop, &s->lost_timer, loop_now_ms(s->hub.loop) + delay_ms, report_lost,
                   s);
}

static void lost_reported(void *arg, const struct error *err, const ProtobufCMessage *answer)
{
    (void)answer;
    if (err->code != E_CANCELLED)
        report_later(arg, err->code ? SESSION_PAUSE_MS : LOST_AGAIN_MS);
}

static void report_lost(void *arg)
{
    struct session_rpc *s = arg;
    struct rpc_options options = {.timeout_ms = LOST_AGAIN_MS};
    uint32_t ranks[SESSION_LOST_MAX];
    Muster__WorkerLostPeersRequest request = MUSTER__WORKER_LOST_PEERS_REQUEST__INIT;
    request.job = s->job;
    request.uid = s->uid;
    request.ranks = ranks;
    (void)pthread_mutex_lock(&s->lock);
    bool over = s->target > s->lost_generation;
    request.generation = s->lost_generation;
    request.n_ranks = s->lost_count;
    memcpy(ranks, s->lost_ranks, sizeof(ranks[0]) * s->lost_count);
    (void)pthread_mutex_unlock(&s->lock);
    if (!over && rpc_client_call(s->hub.client, &muster__worker_hub__descriptor, "LostPeers",
                                 &request.base, &options, lost_reported, s, NULL))
        report_later(s, SESSION_PAUSE_MS);
}

/* Under lock. */
static void add_rank(struct session_rpc *s, uint32_t rank)
{
    for (size_t i = 0; i < s->lost_count; i++)
        if (s->lost_ranks[i] == rank)
            return;
    if (s->lost_count < SESSION_LOST_MAX)
        s->lost_ranks[s->lost_count++] = rank;
}

void session_lost(struct session *session, uint64_t generation, const int *ranks, int n_ranks)
{
    struct session_rpc *s = (struct session_rpc *)session;
    (void)pthread_mutex_lock(&s->lock);
    if (generation > s->lost_generation) {
        s->lost_generation = generation;
        s->lost_count = 0;
    }
    for (int i = 0; generation == s->lost_generation && i < n_ranks; i++)
        add_rank(s, (uint32_t)ranks[i]);
    (void)pthread_mutex_unlock(&s->lock);
    loop_post(s->hub.loop, report_lost, s);
}
