/* Mutual authentication of two ranks, before any training data moves.
 *
 *       acceptor                       connector
 *       challenge {nonce}         ->
 *                                 <-   hello {generation, ranks, channel, nonce, mac}
 *       welcome {status, mac}     ->
 *
 * The macs are HMAC-SHA-256 under the generation's secret over all earlier fields, so neither side
 * can be replayed. A refusal for another generation precedes the check of the mac, because that
 * generation has another secret. Pure: bytes in, bytes out; no sockets, no clock.
 */
#ifndef COMM_HANDSHAKE_H
#define COMM_HANDSHAKE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/sha256.h"

enum { HANDSHAKE_NONCE_BYTES = 16 };

/* CHANNEL_DATA and above: one per data connection. */
enum channel { CHANNEL_CONTROL, CHANNEL_DATA };
enum { CHANNELS_MAX = 64 };

enum handshake_status {
    HANDSHAKE_WELCOME,
    HANDSHAKE_BEHIND,  /* the connector's generation is over */
    HANDSHAKE_AHEAD,   /* the acceptor is still in an earlier one: try again */
    HANDSHAKE_REFUSED, /* wrong secret, wrong world, or a rank that is already connected */
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
    uint16_t connections; /* for data, the number that the connector requests per pair */
    uint8_t nonce[HANDSHAKE_NONCE_BYTES];
    uint8_t mac[SHA256_BYTES];
};

struct welcome {
    uint32_t magic;
    uint16_t status;
    uint16_t connections; /* the number that the acceptor requests */
    uint64_t generation;  /* the acceptor's */
    uint8_t mac[SHA256_BYTES];
};

/* A rank's own facts and its generation. */
struct credentials {
    const uint8_t *secret; /* [SHA256_BYTES] */
    uint64_t generation;
    int rank, world;
    int connections;
};

void challenge_make(struct challenge *challenge, const uint8_t nonce[HANDSHAKE_NONCE_BYTES]);
bool challenge_valid(const struct challenge *challenge);

/* `hello` has to, channel and nonce set; the other fields are added. */
void hello_make(struct hello *hello, const struct credentials *self,
                const struct challenge *challenge);

/* The acceptor's decision. The caller also checks whether `from` is already connected. */
enum handshake_status hello_check(const struct hello *hello, const struct credentials *self,
                                  const struct challenge *challenge);

void welcome_make(struct welcome *welcome, const struct credentials *self,
                  const struct hello *hello, enum handshake_status status);

/* The connector's decision: a welcome counts only with a correct mac. */
enum handshake_status welcome_check(const struct welcome *welcome, const struct credentials *self,
                                    const struct hello *hello);

#endif
