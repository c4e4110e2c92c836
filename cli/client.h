/* The CLI's client of the Coordinator service: finds address and token, makes one call at a time,
 * shows failures to people, prints answers in the requested form. One thread.
 *
 * Address and token are each read from the first of these that has it:
 *
 *   --addr, --token
 *   MUSTER_ADDR, MUSTER_TOKEN
 *   ~/.config/muster/config.yaml (addr, token)
 *   the newest cluster of `muster up` that runs (clusters.h)
 *
 * The coordinator must prove its key. The key's pin follows the token, or is in MUSTER_PIN.
 */
#ifndef CLI_CLIENT_H
#define CLI_CLIENT_H

#include <stdio.h>

#include "cli/verb.h"
#include "common/base/parse.h"
#include "common/rpc/sync.h"
#include "common/rpc/transcode.h"
#include "proto/client.pb-c.h"

/* Rows every client verb has; CLIENT_OUTPUT for those that list or show. */
#define CLIENT_OPTIONS                                                                             \
    {.name = "addr",                                                                               \
     .kind = ARGS_OPTION,                                                                          \
     .value_name = "URL",                                                                          \
     .help = "the coordinator, as tcp://HOST:PORT (else MUSTER_ADDR, the config file, or what "    \
             "`muster up` wrote)"},                                                                \
    {                                                                                              \
        .name = "token", .kind = ARGS_OPTION, .value_name = "TOKEN",                               \
        .help = "access token (else MUSTER_TOKEN, the config file, or what `muster up` wrote)"     \
    }
#define CLIENT_OUTPUT                                                                              \
    {                                                                                              \
        .name = "output", .letter = 'o', .kind = ARGS_OPTION, .choices = output_formats,           \
        .fallback = "table", .value_name = "FORMAT", .help = "how it is printed"                   \
    }
extern const char *const output_formats[];

struct client {
    struct rpc_sync *rpc;
    char url[256];
    char origin[256]; /* the address's source */
    bool reached;     /* it has answered */
};

/* A small file's first line: an address or a token. */
int client_read_line(const char *path, char *ret, size_t size, struct error *err);

/* A connection to the coordinator at `url`. Its key is known from the token's pin or MUSTER_PIN;
 * E_NOT_FOUND if neither is there. */
int client_dial(const char *url, const char *token, struct rpc_sync **ret, struct error *err);

int client_open(const struct args *args, struct client *ret, struct error *err);
void client_close(struct client *client); /* zeroed memory is fine */

/* One call, 6 s unless `options` has another limit; free the answer with rpc_message_free. A
 * coordinator that was never reached is explained at once if possible: refused, unknown host,
 * another protocol. One that answered before is waited for while it restarts. A call without
 * `retry` is sent when another one was answered. */
int client_call(struct client *client, const char *method, const void *request,
                const struct rpc_options *options, void *ret_answer, struct error *err);

/* The failure on stderr with field and hint; returns the exit code that fits. */
int client_fail(const struct error *err);

/* client_open and client_call, with failures shown: 0 and the answer, or the exit code. */
int client_ask(const struct args *args, const char *method, const void *request, void *ret_answer);

/* True if -o asked for JSON or YAML: then the message was printed. Else the caller prints it, and
 * what in its texts could fool a terminal was escaped (cli/escape.h). */
bool client_printed(const struct args *args, const void *message);

/* Below a list, for people: the coordinator accepts no changes. `why` is the answer's
 * changes_refused; nothing for the empty text. */
void client_tell_refused(FILE *out, const char *why);

/* Print one of several messages, in the `format` of -o: JSON on a line of its own, or a YAML
 * document. */
void client_print_item(const char *format, const void *message);

/* A job by id or name; 0 or the exit code. */
int client_job(struct client *client, const char *id, Muster__Job **ret);

const char *job_state_word(Muster__Job__State state);
/* For people: "stalled" for a running job that is stalled, else its state. */
const char *job_word(const Muster__Job *job);
/* "3m 5s" since then; "-" for 0. */
const char *age_text(int64_t wall_ms, char ret[FORMAT_MAX]);
const char *count_text(double value, char ret[FORMAT_MAX]); /* "1.2k", "3.4M", "5.6T" */

#endif
