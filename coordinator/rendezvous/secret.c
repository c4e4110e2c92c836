#include "coordinator/rendezvous/secret.h"

#include <string.h>

#include "common/base/hex.h"
#include "common/base/sha256.h"
#include "common/base/str.h"

enum { MESSAGE_MAX = 128 };

static const char token_prefix[] = "mst_worker_";

_Static_assert(sizeof(token_prefix) + BASE64URL_LENGTH(SHA256_BYTES) <= WORKER_TOKEN_MAX,
               "a worker token fits its buffer");
_Static_assert((int)SECRET_BYTES == (int)SHA256_BYTES, "secrets are whole digests");

static void derive(const struct job *job, const char *message, uint8_t ret[SHA256_BYTES])
{
    struct hmac_sha256 hmac;
    hmac_sha256_init(&hmac, job->secret, sizeof(job->secret));
    hmac_sha256_update(&hmac, message, strlen(message));
    hmac_sha256_final(&hmac, ret);
}

void worker_token(const struct job *job, uint64_t uid, uint64_t generation,
                  char ret[WORKER_TOKEN_MAX])
{
    char message[MESSAGE_MAX];
    uint8_t mac[SHA256_BYTES];
    (void)str_printf(message, sizeof(message), "worker|%s|%llu|%llu", job->id,
                     (unsigned long long)uid, (unsigned long long)generation);
    derive(job, message, mac);
    memcpy(ret, token_prefix, sizeof(token_prefix) - 1);
    base64url_encode(mac, sizeof(mac), ret + sizeof(token_prefix) - 1);
}

void generation_secret(const struct job *job, uint64_t generation, uint8_t ret[SECRET_BYTES])
{
    char message[MESSAGE_MAX];
    (void)str_printf(message, sizeof(message), "comm|%s|%llu", job->id,
                     (unsigned long long)generation);
    derive(job, message, ret);
}
