/* How two ranks make sure of each other before a byte of training data moves.
 *
 *     acceptor                       connector
 *     challenge {nonce}         ->
 *                               <-   hello {generation, ranks, channel, nonce, mac}
 *     welcome {status, mac}     ->
 *
 * The macs are HMAC-SHA-256 under the generation's secret over everything said so far, so neither
 * side can be replayed. A refusal for another generation is said before any mac is looked at: its
 * secret is another one. Pure: bytes in, bytes out; no sockets, no clock.
 */
#ifndef COMM_HANDSHAKE_H
#define COMM_HANDSHAKE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/sha256.h"

enum { HANDSHAKE_NONCE_BYTES = 16 };

/* From CHANNEL_DATA on: one for each data connection. */
enum channel { CHANNEL_CONTROL, CHANNEL_DATA };
enum { CHANNELS_MAX = 64 };

enum handshake_status {
    HANDSHAKE_WELCOME,
    HANDSHAKE_BEHIND,  /* the connector's generation is over */
    HANDSHAKE_AHEAD,   /* the acceptor is still in an earlier one: try again */
    HANDSHAKE_REFUSED, /* wrong secret, wrong world, or a rank that is here already */
};

struct challenge {
    uint32_t magic;
    uint32_t version;
    uint8_t nonce[HANDSHAKE_NONCE_BYTES];
};

struct hello {
    uint32_t magic;
    uint32_t version;
    uint64_t generation;
    int32_t from, to, world;
    uint16_t channel;
    uint16_t connections; /* for data, as many as the connector wants of a pair */
    uint8_t nonce[HANDSHAKE_NONCE_BYTES];
    uint8_t mac[SHA256_BYTES];
};

struct welcome {
    uint32_t magic;
    uint16_t status;
    uint16_t connections; /* that the acceptor wants */
    uint64_t generation;  /* the acceptor's */
    uint8_t mac[SHA256_BYTES];
};

/* What a rank knows of itself and its generation. */
struct credentials {
    const uint8_t *secret; /* [SHA256_BYTES] */
    uint64_t generation;
    int rank, world;
    int connections;
};

void challenge_make(struct challenge *challenge, const uint8_t nonce[HANDSHAKE_NONCE_BYTES]);
bool challenge_valid(const struct challenge *challenge);

/* `hello` has to, channel and nonce filled in; the rest is added. */
void hello_make(struct hello *hello, const struct credentials *self,
                const struct challenge *challenge);

/* The acceptor's judgement; whether `from` is here already is the caller's to add. */
enum handshake_status hello_judge(const struct hello *hello, const struct credentials *self,
                                  const struct challenge *challenge);

void welcome_make(struct welcome *welcome, const struct credentials *self,
                  const struct hello *hello, enum handshake_status status);

/* The connector's judgement: a welcome counts only with a right mac. */
enum handshake_status welcome_judge(const struct welcome *welcome, const struct credentials *self,
                                    const struct hello *hello);

#endif
