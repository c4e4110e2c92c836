/* This process as a member of a generation: its communicator, its rank among how many.
 *
 *      begin: the generation's number ──► connected: communicator, rank, world ──► detach
 *
 * The program's thread changes it and reads it without the lock. Other threads call the functions
 * of the second group: the session's thread aborts and asks for the status, the saver's thread
 * reports.
 */
#ifndef STEP_MEMBERSHIP_H
#define STEP_MEMBERSHIP_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <worker/comm.h>

#include "libworker/session/session.h"

struct comm_listener;

struct membership {
    pthread_mutex_t lock;
    /* Changed under lock. */
    struct wk_comm *comm; /* NULL between generations */
    uint64_t generation;
    int rank, world;
    struct wk_comm_status connecting; /* missing ranks while connecting; or zeroed */

    int local_rank;
    struct comm_listener *listener;     /* NULL before the first generation, or with one rank */
    char resume_from[SESSION_PATH_MAX]; /* the coordinator's choice of a checkpoint, or "" */
};

void membership_init(struct membership *group);
void membership_fini(struct membership *group); /* after detach */

void membership_begin(struct membership *group, uint64_t generation);
void membership_connected(struct membership *group, struct wk_comm *comm, int rank, int world);

/* The communicator, which the caller closes; or NULL. */
struct wk_comm *membership_detach(struct membership *group);

/* Any thread. */
void membership_connecting(struct membership *group, const struct wk_comm_status *status);
void membership_status(struct membership *group, struct wk_comm_status *ret);
void membership_abort(struct membership *group, uint64_t generation); /* unless it has ended */
uint64_t membership_generation(struct membership *group);
int membership_rank(struct membership *group);

#endif
