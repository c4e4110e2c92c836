/* The messages of comm_bootstrap, and what both of its sides use.
 *
 *     rank 0                                   the others
 *     greeting {base port, world, nonce}  ->
 *                                         <-   entry {rank, endpoint, host, mac}
 *     (once everybody is here)
 *     table {generation, secret, mac}, rows ->
 *
 * The base port in the greeting keeps jobs apart whose port ranges overlap.
 */
#ifndef COMM_BOOTSTRAP_H
#define COMM_BOOTSTRAP_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/sha256.h"
#include "libworker/comm/comm.h"
#include "libworker/comm/handshake.h"

enum {
    BOOTSTRAP_PORTS = 8,
    BOOTSTRAP_HOST_BYTES = 80,
    BOOTSTRAP_GREETING_MS = 300, /* a port that stays silent so long is someone else's */
};

struct bootstrap_greeting {
    uint32_t magic;
    uint32_t version;
    int32_t base_port;
    int32_t world;
    uint8_t nonce[HANDSHAKE_NONCE_BYTES];
};

struct bootstrap_entry {
    uint32_t magic;
    int32_t rank;
    char endpoint[COMM_ENDPOINT_BYTES];
    char host[BOOTSTRAP_HOST_BYTES];
    uint8_t mac[SHA256_BYTES];
};

struct bootstrap_row {
    char endpoint[COMM_ENDPOINT_BYTES];
    int32_t host;
};

struct bootstrap_table {
    uint32_t magic;
    int32_t world;
    uint64_t generation;
    uint8_t secret[COMM_SECRET_BYTES];
    uint8_t mac[SHA256_BYTES]; /* over nonce, the fields above and the rows */
};

void bootstrap_greet(struct bootstrap_greeting *greeting,
                     const struct comm_bootstrap_options *options);
bool bootstrap_greeting_valid(const struct bootstrap_greeting *greeting,
                              const struct comm_bootstrap_options *options);

int bootstrap_enter(struct bootstrap_entry *entry, const struct comm_bootstrap_options *options,
                    const struct bootstrap_greeting *greeting, struct error *err);
bool bootstrap_entry_valid(const struct bootstrap_entry *entry,
                           const struct comm_bootstrap_options *options,
                           const struct bootstrap_greeting *greeting);

void bootstrap_table_init(struct bootstrap_table *table,
                          const struct comm_bootstrap_options *options);

void bootstrap_table_mac(const struct bootstrap_table *table, const struct bootstrap_row *rows,
                         const struct comm_bootstrap_options *options,
                         const struct bootstrap_greeting *greeting, uint8_t ret[SHA256_BYTES]);

int bootstrap_table_take(struct comm_table *ret, const struct bootstrap_table *table,
                         const struct bootstrap_row *rows, struct error *err);

enum { BOOTSTRAP_LOOK_MS = 50 }; /* between two questions whether it is cancelled */
bool bootstrap_cancelled(const struct comm_bootstrap_options *options);

/* Rank 0's side and the others'. */
int bootstrap_serve(const struct comm_bootstrap_options *options, struct comm_table *ret,
                    struct error *err);
int bootstrap_ask(const struct comm_bootstrap_options *options, struct comm_table *ret,
                  struct error *err);

#endif
