/* Limits on what one caller, one tenant, one address and all of them together may use at the
 * coordinator and at an agent. All numbers are in this one table. Refusals name the row, and
 * /metrics shows every row as muster_limit and muster_limit_refused_total. No state; any thread. */
#ifndef BASE_LIMITS_H
#define BASE_LIMITS_H

#include "common/base/error.h"

#define STEP_MAX 9007199254740991ULL /* of training; 2^53 - 1, exact in JSON and on the page */

/* One X per limit: enum word, number, name in /metrics, what is counted, what to do. */
#define LIMITS(X)                                                                                  \
    X(STRANGER_CALL_BYTES, 1024, stranger_call_bytes, "bytes of a call that needs no token",       \
      "such a call carries nothing")                                                               \
    X(READ_CALL_BYTES, 64 << 10, read_call_bytes, "bytes of a call without a spec",                \
      "ask for less at once")                                                                      \
    X(SPEC_CALL_BYTES, 1 << 20, spec_call_bytes, "bytes of a call with a spec",                    \
      "keep data out of specs: files, or settings of the program")                                 \
    X(STRANGER_REFUSALS, 8, stranger_refusals, "calls of one connection with a bad token",         \
      "muster token whoami shows whether a token is valid")                                        \
    X(STRANGER_CALLS, 64, stranger_calls, "open calls without a token", "try again in a second")   \
    X(VIEWER_CALLS, 256, viewer_calls, "open calls of a viewer's token", CLOSE_SOME)               \
    X(MEMBER_CALLS, 1024, member_calls, "open calls of a member's token", CLOSE_SOME)              \
    X(OPERATOR_CALLS, 1024, operator_calls, "open calls of an operator's token", CLOSE_SOME)       \
    X(ADMIN_CALLS, 4096, admin_calls, "open calls of an administrator's token", CLOSE_SOME)        \
    X(AGENT_CALLS, 4096, agent_calls, "open calls of an agent", CLOSE_SOME)                        \
    X(AGENT_FORWARDS, 3072, agent_forwards, "open calls that an agent passes on",                  \
      "programs on this node use the board too much")                                              \
    X(TENANT_CALLS, 2048, tenant_calls, "open calls of one tenant", CLOSE_SOME)                    \
    X(READERS_CALLS, 8192, readers_calls, "open calls of viewers, members and operators",          \
      "try again in a second")                                                                     \
    X(ADMINS_CALLS, 8192, admins_calls, "open calls of administrators", CLOSE_SOME)                \
    X(AGENTS_CALLS, 49152, agents_calls, "open calls of agents", "try again in a second")          \
    X(WORKER_CALLS, 64, worker_calls, "open calls of one worker at its agent", CLOSE_SOME)         \
    X(WORKER_FORWARDS, 32, worker_forwards, "calls of one worker that its agent passes on",        \
      "wait for answers before asking the board again")                                            \
    X(TOKEN_NODES, 10000, token_nodes, "known nodes that one join token let in",                   \
      "muster token create NAME --role agent makes another; or its lost nodes are forgotten: "     \
      "--keep-nodes of the coordinator")                                                           \
    X(BOARD_BYTES, 16 << 20, board_bytes, "bytes on the board of one generation",                  \
      "leave large data in files")                                                                 \
    X(TENANT_BOARD_BYTES, 64 << 20, tenant_board_bytes,                                            \
      "bytes on the boards of one tenant's jobs", "leave large data in files")                     \
    X(WORKER_CALL_BYTES, 1 << 20, worker_call_bytes, "bytes of a worker's call",                   \
      "report fewer metrics at once")                                                              \
    X(HTTP_CONNECTIONS, 1984, http_connections, "HTTP connections",                                \
      "the address with the most of them loses one that waits")                                    \
    X(HTTP_REQUEST_S, 10, http_request_s, "seconds from an HTTP connection to its first request",  \
      "send the headers at once")                                                                  \
    X(TOKEN_STREAMS, 64, token_streams, "live streams of one token", "close some of them")         \
    X(ADMIN_STREAMS, 512, admin_streams, "live streams of one administrator's token",              \
      "close some of them")                                                                        \
    X(STREAMS, 1024, streams, "live streams", "ask by the clock instead")                          \
    X(STRANGER_S, 10, stranger_s, "seconds from an RPC connection to its first good call",         \
      "call with a good token at once")                                                            \
    X(STRANGER_HALF_BYTES, 2 << 20, stranger_half_bytes,                                           \
      "bytes of a message before the first good call of its connection",                           \
      "make a smaller call first")                                                                 \
    X(STRANGERS_HALF_BYTES, 64 << 20, strangers_half_bytes,                                        \
      "bytes of half messages before first good calls", "the largest of them are hung up on")      \
    X(CALLERS_HALF_BYTES, 128 << 20, callers_half_bytes, "bytes of half messages of callers",      \
      "the largest of them are hung up on")                                                        \
    X(AGENTS_HALF_BYTES, 256 << 20, agents_half_bytes, "bytes of half messages of agents",         \
      "the largest of them are hung up on")                                                        \
    X(CALLER_UNSENT_BYTES, 8 << 20, caller_unsent_bytes,                                           \
      "bytes of answers that a caller leaves "                                                     \
      "unread",                                                                                    \
      "read answers before asking for more")                                                       \
    X(CALLERS_UNSENT_BYTES, 256 << 20, callers_unsent_bytes,                                       \
      "bytes of answers that callers "                                                             \
      "leave unread",                                                                              \
      "the largest holders are hung up on")                                                        \
    X(SECRET_BYTES, 64 << 10, secret_bytes, "bytes of a secret",                                   \
      "keep what is larger on a file system that the nodes share")                                 \
    X(JOB_SECRETS_BYTES, 256 << 10, job_secrets_bytes, "bytes of all secrets of a job",            \
      "keep what is larger on a file system that the nodes share")                                 \
    X(JOB_CHANNELS, 32, job_channels, "open terminals, programs and connections of one job",       \
      "end some of them: GET /v1/jobs/{id}/channels lists them")                                   \
    X(TENANT_CHANNELS, 64, tenant_channels,                                                        \
      "open terminals, programs and connections of one tenant", "end some of them")                \
    X(CHANNELS, 256, channels, "open terminals, programs and connections", "end some of them")     \
    X(CHANNEL_OPENS, 600, channel_opens,                                                           \
      "terminals, programs and connections that one tenant opens in a minute",                     \
      "try again in a minute")                                                                     \
    X(PLAN_CALLS, 8, plan_calls, "plans that one token waits for", "ask again after one")          \
    X(PLANS_CALLS, 64, plans_calls, "plans that are waited for", "try again in a second")

#define CLOSE_SOME "close some of them; each long poll and stream is one"

enum limit {
#define X(upper, number, name, words, hint) LIMIT_##upper,
    LIMITS(X)
#undef X
        LIMIT_COUNT
};

enum limit_number { /* the same rows as constants: MAX_VIEWER_CALLS */
#define X(upper, number, name, words, hint) MAX_##upper = (number),
                    LIMITS(X)
#undef X
};

int limit_number(enum limit limit);
const char *limit_name(enum limit limit); /* "viewer_calls" */
const char *limit_words(enum limit limit);

/* E_RESOURCE_EXHAUSTED that names the limit, its number and what to do. */
int limit_refuse(enum limit limit, struct error *err);

#endif
