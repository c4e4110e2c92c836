/* The client's end of a channel: a program or a connection beside a worker (docs/shell.md). Its
 * bytes are read from and written to descriptors of this process. It makes calls in the background
 * of a client; the verb's loop waits for its descriptors and for answers:
 *
 *       remote_open ──► loop: remote_act, remote_wishes, rpc_sync_wait_on, remote_serve ──► over
 *                                                                                └──► remote_close
 *
 * Descriptors that are open elsewhere, such as a shell's terminal, stay blocking: never more is
 * written at once than they take. One thread.
 */
#ifndef CLI_REMOTE_H
#define CLI_REMOTE_H

#include <poll.h>
#include <stdbool.h>

#include "cli/client.h"

enum {
    REMOTE_INPUT_BYTES = 32 << 10,
    REMOTE_FDS = 3,       /* of one remote, at most */
    REMOTE_WAIT_MS = 500, /* the loop acts again then */
    REMOTE_EXIT_LOST = 255,
};

struct remote_sink { /* a destination of output */
    int fd;          /* -1 = nowhere */
    size_t size, at;
    uint64_t offset; /* received */
    uint8_t *bytes;  /* REMOTE_OUTPUT_BYTES, owned */
};

struct remote { /* zeroed memory is a closed one */
    struct client *client;
    char id[64];
    char node[64];
    int in;                                                  /* -1 = no input */
    bool (*filter)(void *arg, uint8_t *bytes, size_t *size); /* of input; false = end it */
    void *filter_arg;
    size_t size; /* of input, sent or not, not accepted yet */
    uint64_t offset;
    uint8_t input[REMOTE_INPUT_BYTES];
    bool input_over, end_sent, end_in_call;
    size_t in_call; /* bytes of the call in flight */
    struct remote_sink out, errors;
    uint32_t rows, columns; /* of the window; 0 = none */
    bool resized;
    bool open, sending, receiving;
    int64_t retry_ms, called_ms, good_ms; /* monotonic */
    bool over;                            /* and all output was received */
    bool exited;                          /* the program did, by itself */
    int code, signal;
    char text[512]; /* why it is over */
};

/* Open a channel and start its calls. `in`, `out` and `errors` are descriptors or -1; two may be
 * equal only if they are a socket's. 0 or an error. */
struct remote_ends {
    int in, out, errors;
};
int remote_open(struct client *client, Muster__OpenChannelRequest *wish,
                const struct remote_ends *ends, struct remote *ret, struct error *err);

void remote_act(struct remote *remote); /* start the calls that are due */
size_t remote_wishes(const struct remote *remote, struct pollfd ret[REMOTE_FDS]);
void remote_serve(struct remote *remote, const struct pollfd *fds, size_t count);

bool remote_done(const struct remote *remote); /* it is over, and all output is written */
void remote_give_up(struct remote *remote, const char *why); /* it is over now */

/* End the channel if it is open, and free; descriptors stay open. */
void remote_close(struct remote *remote);

/* The exit code of the program, 128 + its signal, or REMOTE_EXIT_LOST; `text` is shown. */
int remote_exit_code(const struct remote *remote);

#endif
