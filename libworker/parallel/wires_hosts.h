/* A communicator with ranks on several hosts, as two levels of groups:
 *
 *      4 ranks, 2 hosts         local 0  local 1
 *      host 0                    rank 0   rank 1    `inside`: the ranks of a host
 *      host 1                    rank 2   rank 3    `between`: those with the same local number
 *
 * Each host has the same number of ranks, two or more, which follow each other. Rank r is then rank
 * r % locals of its host's group, and rank r / locals of the group between hosts. Part of wires.h;
 * the device's thread.
 */
#ifndef PARALLEL_WIRES_HOSTS_H
#define PARALLEL_WIRES_HOSTS_H

#include <stdbool.h>

#include <worker/comm.h>

#include "common/base/error.h"

enum { HOSTS_MAX = 32 }; /* communicators at a time */

struct hosts_pair {
    struct wk_comm *inside, *between; /* NULL: one level */
};

struct host_pairs {
    struct {
        const struct wk_comm *whole;
        struct hosts_pair pair;
    } list[HOSTS_MAX];
    int n;
    bool remarked; /* why there are none, or what does not use them */
};

/* Whether the ranks are on several hosts, and NULL or why they have no two levels: the same on all
 * ranks. */
bool hosts_several(const struct wk_comm *comm);
const char *hosts_misfit(const struct wk_comm *comm);

/* Make a communicator's two groups. Collective. A code of the communicator; hosts_close later. */
int hosts_split(struct host_pairs *hosts, struct wk_comm *whole, struct error *err);

/* A communicator's groups, or NULLs. */
struct hosts_pair hosts_find(const struct host_pairs *hosts, const struct wk_comm *whole);

/* Close its groups, or those of all. Their wires are closed. */
void hosts_close(struct host_pairs *hosts, const struct wk_comm *whole);
void hosts_close_all(struct host_pairs *hosts);

#endif
