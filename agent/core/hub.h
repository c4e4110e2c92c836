/* Calls of workers: each is answered at once or parked in its worker. One Join and one Watch are
 * parked per worker; a newer one replaces the older, which has been abandoned. Core only. */
#ifndef AGENT_HUB_H
#define AGENT_HUB_H

#include "agent/core/action.h"
#include "agent/core/event.h"
#include "agent/core/worker.h"

void agent_hub_hello(struct agent_worker *worker, const struct agent_event *event,
                     struct agent_actions *ret);
void agent_hub_join(struct agent_worker *worker, const struct agent_event *event,
                    struct agent_actions *ret);
void agent_hub_watch(struct agent_worker *worker, const struct agent_event *event,
                     struct agent_actions *ret);
void agent_hub_progress(struct agent_worker *worker, const struct agent_event *event,
                        struct agent_actions *ret);
void agent_hub_lost_peers(struct agent_worker *worker, const struct agent_event *event,
                          struct agent_actions *ret);
/* Answer parked calls that have news. */
void agent_hub_settle(struct agent_worker *worker, struct agent_actions *ret);
/* Answer parked calls at their deadline with "nothing yet". */
void agent_hub_expire(struct agent_worker *worker, int64_t now_ms, struct agent_actions *ret);
/* The worker has ended: drop its parked calls. */
void agent_hub_close(struct agent_worker *worker, struct agent_actions *ret);
void agent_hub_refuse(uint64_t request, int code, const char *why, struct agent_actions *ret);

#endif
