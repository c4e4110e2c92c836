/* The cluster a node belongs to, and the newest event of that cluster's history it knows. With
 * these a coordinator cannot end workers that its store does not know, because it is another
 * cluster's or an older copy. */
#ifndef AGENT_MEMBERSHIP_H
#define AGENT_MEMBERSHIP_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "proto/node.pb-c.h"

enum { AGENT_CLUSTER_MAX = 255 };

struct agent_membership {
    char cluster[AGENT_CLUSTER_MAX + 1]; /* "" = no cluster yet */
    uint64_t event;                      /* newest event it was informed of */
    int64_t restored_wall_ms;            /* its restore from a backup; 0 = never */
};

/* The membership of a running agent. */
struct membership_watch {
    struct agent_membership member;
    /* Called after a change, which must be kept for the next agent. For events alone at most every
     * MEMBERSHIP_SAVE_MS. */
    void (*on_change)(void *arg, const struct agent_membership *member); /* may be NULL */
    void *arg;
    int64_t save_after_ms;
};

enum { MEMBERSHIP_SAVE_MS = 10000 };

/* True if this is the known history or a later one. A restore later than ours was intended by an
 * administrator. Old programs that send no events (0) are believed. */
bool membership_accepts(const struct agent_membership *member, uint64_t newest_event,
                        int64_t restored_wall_ms);

/* E_FAILED_PRECONDITION if the answer is from another cluster or an older history. Only for nodes
 * with workers: a node without workers may join any cluster. */
int membership_check(const struct agent_membership *member,
                     const Muster__RegisterNodeAnswer *answer, struct error *err);

/* Handle the answer to a registration: join, or return the reason why not. */
int membership_join(struct membership_watch *watch, const Muster__RegisterNodeAnswer *answer,
                    bool has_workers, int64_t now_ms, struct error *err);

/* Handle the newest event of an answer. False, and no change, if the node has workers and the
 * answer is from an older history. */
bool membership_check_events(struct membership_watch *watch, uint64_t newest_event,
                             int64_t restored_wall_ms, bool has_workers, int64_t now_ms);

#endif
