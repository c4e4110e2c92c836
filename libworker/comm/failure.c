#include "libworker/comm/failure.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "libworker/comm/control_send.h"
#include "libworker/comm/state.h"

static void wake_runner(struct wk_comm *comm)
{
    uint64_t one = 1;
    (void)!write(comm->bell_fd, &one, sizeof(one));
}

/* Returns the code that counts: the first. `inform` is false if a peer has already informed all
 * ranks. */
static int fail_once(struct wk_comm *comm, struct control_message *message, bool inform)
{
    pthread_mutex_lock(&comm->fail_lock);
    int stands = atomic_load(&comm->failure);
    if (stands == 0) {
        snprintf(comm->failure_text, sizeof(comm->failure_text), "%s", message->text);
        comm->failure_lost = message->lost;
        atomic_store(&comm->failure, message->code);
        stands = message->code;
        if (inform) {
            control_send_all(comm, message);
            for (int p = 0; p < comm->world; p++)
                if (comm->peers[p].link)
                    link_alert(comm->peers[p].link);
        }
        wake_runner(comm);
    }
    struct wk_comm *child = comm->first_child;
    for (; child; child = child->next_sibling)
        comm_fail(child, WK_EABORT, -1, "%s: its parent failed: %s", child->name,
                  comm->failure_text);
    pthread_mutex_unlock(&comm->fail_lock);
    return stands;
}

int comm_fail(struct wk_comm *comm, int code, int lost, const char *fmt, ...)
{
    struct control_message message = {.kind = CONTROL_FAIL, .code = code, .lost = lost};
    va_list args;
    va_start(args, fmt);
    vsnprintf(message.text, sizeof(message.text), fmt, args);
    va_end(args);
    return fail_once(comm, &message, true);
}

int comm_fail_heard(struct wk_comm *comm, struct control_message *message)
{
    return fail_once(comm, message, false);
}

int comm_fail_mismatch(struct wk_comm *comm, int peer, const struct header *ours,
                       const struct header *theirs)
{
    char own[DESCRIPTION_BYTES], other[DESCRIPTION_BYTES];
    header_describe(ours, own, sizeof(own));
    header_describe(theirs, other, sizeof(other));
    return comm_fail(comm, WK_EMISMATCH, -1, "%s: rank %d called %s, rank %d called %s", comm->name,
                     comm->rank, own, peer, other);
}

int comm_argument_error(struct wk_comm *comm, int code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    pthread_mutex_lock(&comm->fail_lock);
    vsnprintf(comm->argument_text, sizeof(comm->argument_text), fmt, args);
    pthread_mutex_unlock(&comm->fail_lock);
    va_end(args);
    return code;
}

int comm_missing(void)
{
    struct error err = {0};
    (void)error_set(&err, WK_EINVAL,
                    "NULL instead of a communicator: wk_communicator returns NULL while a "
                    "generation is broken, up to the next wk_next");
    return error_keep(&err);
}

void wk_comm_abort(struct wk_comm *comm)
{
    if (comm)
        comm_fail(comm, WK_EABORT, -1, "aborted by rank %d", comm->rank);
}

const char *wk_comm_error(struct wk_comm *comm)
{
    if (!comm)
        return error_kept();
    return atomic_load(&comm->failure) != 0 ? comm->failure_text : comm->argument_text;
}
