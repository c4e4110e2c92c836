#include "libworker/parallel/wires_hosts.h"

#include "common/base/assert.h"

bool hosts_several(const struct wk_comm *comm)
{
    for (int rank = 1; rank < wk_comm_world(comm); rank++)
        if (wk_comm_host(comm, rank) != wk_comm_host(comm, 0))
            return true;
    return false;
}

static int locals_of(const struct wk_comm *comm)
{
    int locals = 0;
    for (int rank = 0; rank < wk_comm_world(comm); rank++)
        if (wk_comm_host(comm, rank) == wk_comm_host(comm, 0))
            locals++;
    return locals;
}

const char *hosts_misfit(const struct wk_comm *comm)
{
    int world = wk_comm_world(comm), locals = locals_of(comm);
    for (int p = 0; p < world; p++)
        for (int q = 0; q < p; q++)
            if ((wk_comm_host(comm, p) == wk_comm_host(comm, q)) != (p / locals == q / locals))
                return "collectives.between is tcp, for which each host must have the same number "
                       "of ranks, one after the other";
    if (world % locals)
        return "collectives.between is tcp, for which each host must have the same number of ranks";
    return locals > 1 ? NULL : "collectives.between is tcp, and the ranks have a host each";
}

int hosts_split(struct host_pairs *hosts, struct wk_comm *whole, struct error *err)
{
    int rank = wk_comm_rank(whole), locals = locals_of(whole);
    const struct wk_split inside = {"within the host", rank / locals, rank % locals};
    const struct wk_split between = {"between hosts", rank % locals, rank / locals};
    insist(hosts->n < HOSTS_MAX);
    struct hosts_pair *pair = &hosts->list[hosts->n].pair;
    *pair = (struct hosts_pair){0};
    hosts->list[hosts->n++].whole = whole;
    int rc = wk_comm_split(whole, &inside, &pair->inside);
    if (!rc)
        rc = wk_comm_split(whole, &between, &pair->between);
    if (rc)
        (void)error_set(err, rc, "%s", wk_comm_error(whole));
    return rc;
}

struct hosts_pair hosts_find(const struct host_pairs *hosts, const struct wk_comm *whole)
{
    for (int i = 0; i < hosts->n; i++)
        if (hosts->list[i].whole == whole)
            return hosts->list[i].pair;
    return (struct hosts_pair){0};
}

static void close_pair(struct hosts_pair pair)
{
    wk_comm_close(pair.between);
    wk_comm_close(pair.inside);
}

void hosts_close(struct host_pairs *hosts, const struct wk_comm *whole)
{
    for (int i = 0; i < hosts->n; i++)
        if (hosts->list[i].whole == whole) {
            close_pair(hosts->list[i].pair);
            hosts->list[i] = hosts->list[--hosts->n];
            return;
        }
}

void hosts_close_all(struct host_pairs *hosts)
{
    while (hosts->n)
        close_pair(hosts->list[--hosts->n].pair);
}
