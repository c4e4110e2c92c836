/* Which cluster a node belongs to, and how far that cluster's history goes: so that no coordinator
 * ends workers that its store does not know, because it is another cluster's or an older copy.
 */
#ifndef AGENT_MEMBERSHIP_H
#define AGENT_MEMBERSHIP_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "proto/node.pb-c.h"

enum { AGENT_CLUSTER_MAX = 255 };

struct agent_membership {
    char cluster[AGENT_CLUSTER_MAX + 1]; /* "" = of none yet */
    uint64_t event;                      /* newest it was told of */
    int64_t restored_wall_ms;            /* when that history began with a backup, 0 = it did not */
};

/* Of a running agent. */
struct membership_watch {
    struct agent_membership member;
    /* It changed: to be kept for the next agent. At most every MEMBERSHIP_SAVE_MS for events alone.
     */
    void (*on_change)(void *arg, const struct agent_membership *member); /* NULL = nobody asks */
    void *arg;
    int64_t save_after_ms;
};

enum { MEMBERSHIP_SAVE_MS = 10000 };

/* Is this the history we know, or a later one? A restore that is later than ours is meant by
 * somebody. Programs of before that tell no events (0) are believed. */
bool membership_believes(const struct agent_membership *member, uint64_t newest_event,
                         int64_t restored_wall_ms);

/* E_FAILED_PRECONDITION if the answer is of another cluster or an older history. For nodes that
 * have workers; others may join whichever. */
int membership_check(const struct agent_membership *member,
                     const Muster__RegisterNodeAnswer *answer, struct error *err);

/* A registration was answered, to a node that has workers or not: join, or say why not. */
int membership_join(struct membership_watch *watch, const Muster__RegisterNodeAnswer *answer,
                    bool has_workers, int64_t now_ms, struct error *err);

/* The newest event was told. False: it is not of the history we know. */
bool membership_hear(struct membership_watch *watch, uint64_t newest_event,
                     int64_t restored_wall_ms, bool has_workers, int64_t now_ms);

#endif
