/* The messages of comm_bootstrap, and the code that both of its sides use.
 *
 *       rank 0                                        the others
 *       greeting {base port, world, run, nonce}  ->
 *                                                <-   entry {rank, endpoint, host, mac}
 *       (once all ranks have entered)
 *       table {generation, secret, mac}, rows    ->
 *    or table {refusal, mac}                     ->
 *
 * The base port, the world and the run in the greeting distinguish trainings with overlapping port
 * ranges. Two trainings that agree in all three cannot be distinguished, so neither may begin. They
 * are detected in two ways. A rank 0 that finds a port in use looks for another rank 0 there
 * (bootstrap_rival.c) and enters as rank 0. And rank 0 sees when two processes enter as one rank.
 * In both cases all ranks that have entered receive the refusal.
 */
#ifndef COMM_BOOTSTRAP_PROTOCOL_H
#define COMM_BOOTSTRAP_PROTOCOL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/sha256.h"
#include "libworker/comm/bootstrap_options.h"
#include "libworker/comm/comm.h"
#include "libworker/comm/handshake.h"
#include "libworker/comm/table.h"

enum {
    BOOTSTRAP_PORTS = 8,
    BOOTSTRAP_HOST_BYTES = 80,
    BOOTSTRAP_GREETING_MS = 300, /* a port that stays silent this long is not ours */
    BOOTSTRAP_REFUSAL_BYTES = 320,
};

struct bootstrap_greeting {
    uint32_t magic;
    uint32_t version;
    int32_t base_port;
    int32_t world;
    char run[COMM_RUN_BYTES]; /* "": the training has no name */
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
    char refusal[BOOTSTRAP_REFUSAL_BYTES]; /* why no rank may begin (no rows follow); else "" */
    uint8_t mac[SHA256_BYTES];             /* over nonce, the fields above and the rows */
};

void bootstrap_greet(struct bootstrap_greeting *greeting,
                     const struct comm_bootstrap_options *options);

/* The origin of a greeting: this training's rank 0 (or one that cannot be distinguished from it),
 * another training with the same MASTER_PORT, or another program. */
enum bootstrap_whose { BOOTSTRAP_OURS, BOOTSTRAP_OTHERS, BOOTSTRAP_STRANGERS };
enum bootstrap_whose bootstrap_classify(const struct bootstrap_greeting *greeting,
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

int bootstrap_table_copy(struct comm_table *ret, const struct bootstrap_table *table,
                         const struct bootstrap_row *rows, struct error *err);

enum { BOOTSTRAP_CHECK_MS = 50 }; /* between two checks for cancellation */
bool bootstrap_cancelled(const struct comm_bootstrap_options *options);

#endif
