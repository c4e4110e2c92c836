/* The channels of a node, kept equal to the coordinator's list: each poll brings all that should be
 * open. One that is new is opened, one that is missing is hung up. Owned by the agent; loop thread
 * only. */
#ifndef AGENT_NODE_CHANNELS_H
#define AGENT_NODE_CHANNELS_H

#include "agent/node_channel.h"
#include "common/base/error.h"

struct node_channels;

/* `host` is copied, without idle and arg. */
int node_channels_new(const struct channel_host *host, struct node_channels **ret,
                      struct error *err);

void node_channels_set(struct node_channels *channels, Muster__Terminal *const *terminals,
                       size_t count);

/* All terminals are hung up and no call follows. Before the client and the launcher end; then free
 * it after the client. NULL is allowed. */
void node_channels_close(struct node_channels *channels);
void node_channels_free(struct node_channels *channels);

#endif
