/* A network of one listener that the fuzzer stands in front of: requests go straight into the
 * server that listens, answers are checked. The clock is the fuzzer's.
 *
 * Each request is answered at most once, with a frame that can be read and has the request's id.
 */
#ifndef FUZZ_DOOR_H
#define FUZZ_DOOR_H

#include <stdbool.h>

#include "common/base/buf.h"
#include "common/env/env.h"
#include "common/loop/loop.h"
#include "proto/rpc.pb-c.h"

enum {
    DOOR_PEERS = 4,
    DOOR_KEYS = 2, /* connections from 1 on that prove a key */
    DOOR_REQUESTS_MAX = 256,
};

struct door_request {
    uint64_t id; /* that the answer must have */
    bool answered;
    int code; /* of the answer */
};

struct door {
    struct env env; /* its disk is not filled */
    struct loop *loop;
    int64_t now_ms;
    uint64_t random;
    net_request_fn on_request;
    net_gone_fn on_gone;
    void *arg;
    struct door_request requests[DOOR_REQUESTS_MAX];
    int count;
    struct buf payload; /* of the newest answer */
};

void door_init(struct door *door);
void door_fini(struct door *door);

/* Let time pass, with turns of the loop. */
void door_run(struct door *door, int64_t ms);

/* A frame from connection `peer`, 1 to DOOR_PEERS. NULL: no more requests can be sent. What the
 * frame asks may be answered now, later or never. */
const struct door_request *door_send(struct door *door, uint64_t peer, const void *bytes,
                                     size_t size);
/* The same, with an envelope around the payload. */
const struct door_request *door_ask(struct door *door, uint64_t peer,
                                    const Muster__RpcRequest *envelope);
void door_hang_up(struct door *door, uint64_t peer);

/* Input of the fuzzer as a series of calls:
 *
 *     byte 0    who calls: the caller's table of tokens
 *     byte 1    method, in the caller's table of names
 *     byte 2    low 2 bits: the connection; 4: it hangs up afterwards; 8: a second passes;
 *               16: the payload is a whole frame, of which only the length is mended
 *     byte 3, 4 length of the payload, low byte first, cut to what is there
 *     payload */
struct door_call {
    uint8_t who, method, how;
    const uint8_t *payload;
    size_t size;
};
enum { DOOR_HANGS_UP = 4, DOOR_SECOND = 8, DOOR_FRAME = 16 };
uint64_t door_peer(const struct door_call *call);
bool door_next(const uint8_t **data, size_t *size, struct door_call *ret);

/* Sends it as `token` and `method` say, and lets time pass. NULL as door_send, and for a frame. */
const struct door_request *door_make(struct door *door, const struct door_call *call,
                                     const char *token, const char *method);

#endif
