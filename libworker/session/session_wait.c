/* Long waits in collectives: a stuck rank cannot report itself, but the ranks that wait for it can.
 * They report it each second until they continue. */
#include "libworker/session/session_rpc.h"

enum {
    LOOK_MS = 1000,
    LONG_US = 1000000, /* shorter waits are everyday life */
};

void session_look(void *arg)
{
    struct session_rpc *s = arg;
    struct wk_comm_status status = {0};
    (void)pthread_mutex_lock(&s->lock);
    bool member = s->generation != 0;
    (void)pthread_mutex_unlock(&s->lock);
    /* The slot is set before the first generation is joined, and not looked at before. */
    if (member && s->base.status)
        s->base.status(s->base.status_arg, &status);
    (void)pthread_mutex_lock(&s->lock);
    bool waits = status.waiting_us >= LONG_US, waited = s->wait.waiting_us != 0;
    s->wait = waits ? status : (struct wk_comm_status){0};
    bool post = (waits || waited) && session_dirty(s);
    (void)pthread_mutex_unlock(&s->lock);
    if (post)
        session_send_soon(s);
    loop_timer_set(s->hub.loop, &s->look_timer, loop_now_ms(s->hub.loop) + LOOK_MS, session_look,
                   s);
}
