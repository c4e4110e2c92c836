/* The core's own state and the functions that its files share. No other room includes this. */
#ifndef AGENT_STATE_H
#define AGENT_STATE_H

#include "agent/core/step.h"

struct agent_core {
    struct agent_worker *workers; /* by job, then uid */
    int count;
    bool registered;
    bool left;                                          /* fenced: no decisions any more */
    bool stopping_all;                                  /* nothing new starts */
    struct worker_key tombstones[AGENT_TOMBSTONES_MAX]; /* a ring */
    uint64_t buried;
};

/* worker.c: one process */
struct agent_worker *agent_worker_find(const struct agent_core *core, const struct worker_key *key);
struct agent_worker *agent_worker_add(struct agent_core *core, const struct worker_key *key);
void agent_worker_become(struct agent_worker *worker, enum agent_worker_state state);
bool agent_worker_runs(const struct agent_worker *worker);
void agent_worker_stop(struct agent_worker *worker, int64_t now_ms, struct agent_actions *actions);
/* SIGKILL did not end all of it: report it, and keep its slots occupied. */
void agent_worker_stuck(struct agent_worker *worker, const struct worker_stuck *stuck,
                        int64_t now_ms, struct agent_actions *actions);
void agent_worker_ended(struct agent_worker *worker, const struct worker_exit *exit,
                        struct agent_actions *actions);
/* It never ran and never will. It becomes an exited worker like any other, so the coordinator needs
 * no second kind of report. */
void agent_worker_unstarted(struct agent_worker *worker, const char *why,
                            struct agent_actions *actions);
/* Forget it if no report about it is needed any more. */
void agent_worker_bury_if_done(struct agent_core *core, struct agent_worker *worker,
                               struct agent_actions *actions);
void agent_worker_remember(struct agent_worker *worker, struct agent_actions *actions);
void agent_worker_hold_token(struct agent_worker *worker, const char *token);
bool agent_worker_buried(const struct agent_core *core, const struct worker_key *key);

/* desired.c: compares desired workers with running ones */
void agent_desired_take(struct agent_core *core, const struct agent_event *event,
                        struct agent_actions *actions);
/* Start workers whose slots have become free. */
void agent_desired_start(struct agent_core *core, struct agent_actions *actions);

/* hub.c: calls of workers */
void agent_hub_hello(struct agent_worker *worker, const struct agent_event *event,
                     struct agent_actions *actions);
void agent_hub_join(struct agent_worker *worker, const struct agent_event *event,
                    struct agent_actions *actions);
void agent_hub_watch(struct agent_worker *worker, const struct agent_event *event,
                     struct agent_actions *actions);
void agent_hub_progress(struct agent_worker *worker, const struct agent_event *event,
                        struct agent_actions *actions);
void agent_hub_lost_peers(struct agent_worker *worker, const struct agent_event *event,
                          struct agent_actions *actions);
/* Answer parked calls that have news. */
void agent_hub_settle(struct agent_worker *worker, struct agent_actions *actions);
/* Answer parked calls at their deadline with "nothing yet". */
void agent_hub_expire(struct agent_worker *worker, int64_t now_ms, struct agent_actions *actions);
/* The worker has ended: drop its parked calls. */
void agent_hub_close(struct agent_worker *worker, struct agent_actions *actions);
void agent_hub_refuse(uint64_t request, int code, const char *why, struct agent_actions *actions);

#endif
