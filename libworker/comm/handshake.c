#include "libworker/comm/handshake.h"

#include <stddef.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "messages are sent as they are in memory");

#define HANDSHAKE_MAGIC UINT32_C(0x68736b77)

enum { HANDSHAKE_VERSION = 2 };

void challenge_make(struct challenge *challenge, const uint8_t nonce[HANDSHAKE_NONCE_BYTES])
{
    *challenge = (struct challenge){.magic = HANDSHAKE_MAGIC, .version = HANDSHAKE_VERSION};
    memcpy(challenge->nonce, nonce, HANDSHAKE_NONCE_BYTES);
}

bool challenge_valid(const struct challenge *challenge)
{
    return challenge->magic == HANDSHAKE_MAGIC && challenge->version == HANDSHAKE_VERSION;
}

static void hello_mac(const struct hello *hello, const uint8_t *secret,
                      const struct challenge *challenge, uint8_t ret_mac[SHA256_BYTES])
{
    struct hmac_sha256 hmac;
    hmac_sha256_init(&hmac, secret, SHA256_BYTES);
    hmac_sha256_update(&hmac, "hello", 5);
    hmac_sha256_update(&hmac, challenge, sizeof(*challenge));
    hmac_sha256_update(&hmac, hello, offsetof(struct hello, mac));
    hmac_sha256_final(&hmac, ret_mac);
}

static void welcome_mac(const struct welcome *welcome, const uint8_t *secret,
                        const struct hello *hello, uint8_t ret_mac[SHA256_BYTES])
{
    struct hmac_sha256 hmac;
    hmac_sha256_init(&hmac, secret, SHA256_BYTES);
    hmac_sha256_update(&hmac, "welcome", 7);
    hmac_sha256_update(&hmac, hello, sizeof(*hello));
    hmac_sha256_update(&hmac, welcome, offsetof(struct welcome, mac));
    hmac_sha256_final(&hmac, ret_mac);
}

void hello_make(struct hello *hello, const struct credentials *self,
                const struct challenge *challenge)
{
    hello->magic = HANDSHAKE_MAGIC;
    hello->version = HANDSHAKE_VERSION;
    hello->generation = self->generation;
    hello->from = self->rank;
    hello->world = self->world;
    hello->connections = (uint16_t)self->connections;
    hello_mac(hello, self->secret, challenge, hello->mac);
}

enum handshake_status hello_check(const struct hello *hello, const struct credentials *self,
                                  const struct challenge *challenge)
{
    uint8_t mac[SHA256_BYTES];
    if (hello->magic != HANDSHAKE_MAGIC || hello->version != HANDSHAKE_VERSION)
        return HANDSHAKE_REFUSED;
    if (hello->generation < self->generation)
        return HANDSHAKE_BEHIND;
    if (hello->generation > self->generation)
        return HANDSHAKE_AHEAD;
    hello_mac(hello, self->secret, challenge, mac);
    if (!sha256_equal(mac, hello->mac))
        return HANDSHAKE_REFUSED;
    /* Higher ranks connect to lower ones. */
    if (hello->world != self->world || hello->to != self->rank || hello->from <= self->rank ||
        hello->from >= self->world || hello->channel >= CHANNELS_MAX)
        return HANDSHAKE_REFUSED;
    return HANDSHAKE_WELCOME;
}

void welcome_make(struct welcome *welcome, const struct credentials *self,
                  const struct hello *hello, enum handshake_status status)
{
    *welcome = (struct welcome){.magic = HANDSHAKE_MAGIC,
                                .status = (uint16_t)status,
                                .connections = (uint16_t)self->connections,
                                .generation = self->generation};
    if (status == HANDSHAKE_WELCOME)
        welcome_mac(welcome, self->secret, hello, welcome->mac);
}

enum handshake_status welcome_check(const struct welcome *welcome, const struct credentials *self,
                                    const struct hello *hello)
{
    uint8_t mac[SHA256_BYTES];
    if (welcome->magic != HANDSHAKE_MAGIC || welcome->status > HANDSHAKE_REFUSED)
        return HANDSHAKE_REFUSED;
    if (welcome->status != HANDSHAKE_WELCOME)
        return (enum handshake_status)welcome->status;
    welcome_mac(welcome, self->secret, hello, mac);
    return sha256_equal(mac, welcome->mac) ? HANDSHAKE_WELCOME : HANDSHAKE_REFUSED;
}
