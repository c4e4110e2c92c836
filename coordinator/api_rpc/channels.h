/* The service's part in channels (coordinator/relay): their waiting calls, the record of their
 * opening and end, and what ends them. Loop thread only. */
#ifndef API_RPC_CHANNELS_H
#define API_RPC_CHANNELS_H

#include "coordinator/api_rpc/open_call.h"
#include "coordinator/relay/relay.h"

/* Calls that wait for this direction of a channel: its receiver for bytes, its sender for room. */
void channels_wait(struct service_call *call, const struct channel *channel,
                   enum channel_stream stream, int64_t again_ms);
void channels_wake(struct service *service, const struct channel *channel,
                   enum channel_stream stream);

/* A channel was opened, or may be over: at the next turn its end is recorded, and waiting calls are
 * answered. */
void channels_changed(struct service *service);

/* A job changed, or all did (NULL): the channels of workers that have ended are over. */
void channels_job_changed(struct service *service, const char *job);

#endif
