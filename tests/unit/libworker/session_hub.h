/* An agent for tests of the session: it answers a worker's calls by a script and notes what it was
 * sent. Its loop has a thread of its own. */
#ifndef SESSION_HUB_H
#define SESSION_HUB_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

#include "common/env/env.h"
#include "common/loop/loop.h"
#include "libworker/session/session.h"
#include "proto/worker.pb-c.h"
#include "tests/lib/check.h"
#include "tests/lib/tmpdir.h"

enum { WAIT_MS = 300000, GRACE_MS = 400000 };

struct hub {
    struct tmpdir dir;
    char url[320];
    struct env env;
    struct loop *loop;
    struct rpc_server *server;
    pthread_t thread;

    pthread_mutex_t lock;
    uint64_t generation;   /* told by Hello and Watch */
    bool membership_ready; /* Joins of `generation` are answered */
    bool stop;
    bool stop_by_join; /* Watch does not tell */
    bool refuse_commit;
    uint32_t leave_ms; /* told with a newer generation */
    const char *prune[3];
    uint64_t watch, join; /* parked calls */
    /* What was heard. */
    int hellos, progresses, joins, losses;
    uint64_t step, total_steps, lost_generation;
    size_t metrics;
    uint32_t lost[4];
    size_t n_lost;
    uint32_t waited_ms, waits_for, waits_for_all;
    char operation[64];
    char token[64];
    Muster__CommitCheckpointRequest__Phase phase;
    char path[256];
};

/* In `generation`, whose members have not come. */
void hub_start(struct hub *hub, uint64_t generation);
void hub_end(struct hub *hub);

/* Announce these, and answer the calls that wait for them. */
void hub_change(struct hub *hub, uint64_t generation, bool ready, bool stop);

/* A session with it, with the token "first-token". */
struct session *hub_session(const struct hub *hub);

#define EVENTUALLY(hub, condition)                                                                 \
    do {                                                                                           \
        bool holds = false;                                                                        \
        for (int waited = 0; waited < WAIT_MS && !holds; waited++) {                               \
            pthread_mutex_lock(&(hub)->lock);                                                      \
            holds = (condition);                                                                   \
            pthread_mutex_unlock(&(hub)->lock);                                                    \
            if (!holds)                                                                            \
                usleep(1000);                                                                      \
        }                                                                                          \
        CHECK(holds);                                                                              \
    } while (0)

/* What the hub's thread reads or writes too. */
#define LOCKED(hub, statement)                                                                     \
    do {                                                                                           \
        pthread_mutex_lock(&(hub)->lock);                                                          \
        statement;                                                                                 \
        pthread_mutex_unlock(&(hub)->lock);                                                        \
    } while (0)

#endif
