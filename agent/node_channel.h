/* The agent's end of one channel: a terminal beside a worker. Two calls move its bytes to and from
 * the coordinator. Each call is repeated as it was if its answer is lost.
 *
 *       terminal ── output, errors: buffers here ── SendTerminal ──────► coordinator
 *       terminal ◄── what it does not accept yet ── ReceiveTerminal ◄── coordinator
 *
 *       open ──► ended (the terminal) ──► told ──► freed, once it is not wanted any more
 *
 * Memory is bounded: a full buffer pauses the terminal, and no input is asked for before the last
 * was accepted. Owned by node_channels.h; loop thread only.
 */
#ifndef AGENT_NODE_CHANNEL_H
#define AGENT_NODE_CHANNEL_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/supervisor/launcher.h"
#include "agent/supervisor/terminal.h"
#include "common/base/list.h"
#include "common/loop/loop.h"
#include "common/rpc/client.h"
#include "proto/node.pb-c.h"

enum {
    CHANNEL_OUTPUT_BYTES = 64 << 10, /* of each stream, not accepted yet */
    CHANNEL_INPUT_BYTES = 64 << 10,
    CHANNEL_SEND_BYTES = 32 << 10, /* in one call */
    CHANNEL_CALL_MS = 10000,
    CHANNEL_AGAIN_MS = 200, /* after a call that failed */
    CHANNEL_STREAMS = 2,    /* enum terminal_stream */
};

struct channel_host { /* what all channels of an agent share */
    const char *node;
    uint64_t incarnation;
    struct loop *loop;
    struct rpc_client *client;
    struct launcher *launcher;
    void (*idle)(void *arg); /* a channel may be freed now */
    void *arg;
};

struct node_channel {
    const struct channel_host *host;
    char id[64];
    struct terminal *terminal; /* NULL: not opened, or ended */
    bool wanted;               /* it is in the coordinator's list */
    bool sending, receiving;   /* a call is in flight */
    bool ended, told, gone;    /* gone: the coordinator does not know it */
    struct terminal_end end;
    struct {
        uint64_t accepted; /* by the coordinator */
        size_t size;
        uint8_t bytes[CHANNEL_OUTPUT_BYTES];
    } out[CHANNEL_STREAMS];
    uint64_t received;
    size_t input_size, input_at;
    uint8_t input[CHANNEL_INPUT_BYTES];
    bool input_ended;
    uint32_t rows, columns;
    struct loop_timer again;
    struct list link;
};

/* Open the terminal. A failure is its end, which is sent to the client. NULL if memory is out. */
struct node_channel *node_channel_open(const struct channel_host *host,
                                       const Muster__Terminal *wish);

/* Not wanted any more: the terminal is hung up. */
void node_channel_drop(struct node_channel *channel);
bool node_channel_is_idle(
    const struct node_channel *channel); /* dropped, and no call is in flight */
void node_channel_free(
    struct node_channel *channel); /* an idle one, or after its client was freed */

#endif
