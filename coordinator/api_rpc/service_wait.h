/* Long polls: calls that wait for news about a topic. Loop thread only. */
#ifndef API_RPC_SERVICE_WAIT_H
#define API_RPC_SERVICE_WAIT_H

#include <stdint.h>

#include "coordinator/api_rpc/open_call.h"

enum { SERVICE_LONG_POLL_MARGIN_MS = 200 }; /* they answer this long before their deadline */

/* One X per topic: enum word, word of its keys. */
#define WAIT_TOPICS(X)                                                                             \
    X(JOB, job)         /* of a job: its state */                                                  \
    X(LOGS, logs)       /* of a job: its output */                                                 \
    X(BOARD, board)     /* of a job: its key-value board */                                        \
    X(NODE, node)       /* of a node: its assignments */                                           \
    X(CHANNEL, channel) /* of a channel, with a direction: its bytes */                            \
    X(EVENTS, events)

enum wait_topic {
#define X(upper, lower) WAIT_##upper,
    WAIT_TOPICS(X)
#undef X
};

/* Wait until service_wake of the same topic and name ("" for EVENTS), until `again_ms` (loop time,
 * INT64_MAX = not used), or until the deadline is near. */
void service_wait(struct service_call *call, enum wait_topic topic, const char *name,
                  int64_t again_ms);
void service_wake(struct service *service, enum wait_topic topic, const char *name);
void service_wake_call(struct service_call *call);
void service_wake_all(struct service *service);

#endif
