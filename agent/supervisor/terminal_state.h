/* The state of a terminal: the agent's ends of its descriptors, and how far it is. Only terminal*.c
 * include this. Loop thread only.
 *
 *   terminal_open.c  makes one, with its keeper or its connection
 *   terminal.c       moves its bytes, and tells its end
 */
#ifndef SUPERVISOR_TERMINAL_STATE_H
#define SUPERVISOR_TERMINAL_STATE_H

#include "agent/supervisor/terminal.h"
#include "agent/supervisor/terminals.h"

enum { TERMINAL_STREAMS = 2 };

struct terminal_fd {  /* one of ours */
    int fd;           /* -1 = closed */
    uint32_t watched; /* epoll events; 0 = not watched */
    bool rests;       /* a pty that no process has open now */
};

struct terminal {
    struct terminals *set;
    struct list link; /* of set->all */
    struct worker_key key;
    struct terminal_events events;
    struct terminal_fd out[TERMINAL_STREAMS]; /* the first is also input, except with pipes */
    struct terminal_fd in;                    /* pipes only */
    bool pty, connection;
    bool connecting;
    bool paused, wants_room, input_ended; /* as the owner asked */
    bool over;                            /* `end` is known; output may be left */
    bool lingered;                        /* the rest of its output is not waited for any more */
    bool ended;                           /* the owner knows `end` */
    bool released;                        /* by the owner */
    struct terminal_end end;
    struct proc keeper; /* pidfd -1 = none, or it was reaped */
    int control_fd;     /* to the keeper; -1 = none */
    struct loop_timer timer;
};

/* Everything of it that is closed; it is in the set. */
void terminal_init(struct terminal *terminal, struct terminals *set);

/* Watch its keeper, which runs. */
int terminal_follow(struct terminal *terminal, struct error *err);

/* The connection is being made, or has failed with this errno. */
void terminal_connecting(struct terminal *terminal, int problem);

/* Watch what its state needs. */
void terminal_watch(struct terminal *terminal);

void terminal_end_now(struct terminal *terminal, enum terminal_reason reason, const char *why);
int terminal_set_size(int fd, uint16_t rows, uint16_t columns, struct error *err);
void terminal_destroy(struct terminal *terminal);

#endif
