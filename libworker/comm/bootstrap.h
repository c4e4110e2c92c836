/* The messages of comm_bootstrap, and what both of its sides use.
 *
 *     rank 0                                        the others
 *     greeting {base port, world, run, nonce}  ->
 *                                              <-   entry {rank, endpoint, host, mac}
 *     (once everybody is here)
 *     table {generation, secret, mac}, rows    ->
 *  or table {refusal, mac}                     ->
 *
 * The base port, the world and the run in the greeting keep trainings apart whose port ranges
 * overlap. Two trainings that agree in all three cannot be told apart, so neither may begin: a rank
 * 0 that finds a port taken looks for another rank 0 behind it (bootstrap_rival.c) and enters there
 * as rank 0; and two processes that enter as one rank are seen by the rank 0 they came to. Either
 * way everybody who has entered is told the refusal.
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
    BOOTSTRAP_REFUSAL_BYTES = 320,
};

struct bootstrap_greeting {
    uint32_t magic;
    uint32_t version;
    int32_t base_port;
    int32_t world;
    char run[COMM_RUN_BYTES]; /* "": nothing names it */
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
    char refusal[BOOTSTRAP_REFUSAL_BYTES]; /* why nobody may begin: no rows follow; else "" */
    uint8_t mac[SHA256_BYTES];             /* over nonce, the fields above and the rows */
};

void bootstrap_greet(struct bootstrap_greeting *greeting,
                     const struct comm_bootstrap_options *options);

/* Whose a greeting is: of this training's rank 0 (or of one that cannot be told from it), of
 * another training that was given the same MASTER_PORT, or of something else. */
enum bootstrap_whose { BOOTSTRAP_OURS, BOOTSTRAP_OTHERS, BOOTSTRAP_STRANGERS };
enum bootstrap_whose bootstrap_judge(const struct bootstrap_greeting *greeting,
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

/* What holds the ports that rank 0 found taken. Rank 0's thread. */
struct bootstrap_rival {
    int fd; /* -1: nothing more to learn */
    int port;
    int64_t since_ms;
    struct bootstrap_greeting greeting;
    size_t got;
};
struct bootstrap_rivals {
    struct bootstrap_rival list[BOOTSTRAP_PORTS];
    int count;
};

/* Begin to connect to `port`. */
void bootstrap_rival_dial(struct bootstrap_rivals *rivals,
                          const struct comm_bootstrap_options *options, int port);

/* Read what has come. WK_EINVAL when one is a rank 0 that cannot be told from this one, which is
 * told so. *ret_waiting: whether one may still answer as fast as a rank 0 does. */
int bootstrap_rivals_look(struct bootstrap_rivals *rivals,
                          const struct comm_bootstrap_options *options, bool *ret_waiting,
                          struct error *err);
void bootstrap_rivals_fini(struct bootstrap_rivals *rivals);

/* The refusal of two rank 0s that nothing tells apart. */
int bootstrap_refuse_rival(const struct comm_bootstrap_options *options, struct error *err);

#endif
