#include "coordinator/core/node_forget.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/parse.h"
#include "common/base/str.h"
#include "coordinator/core/answer.h"
#include "coordinator/core/limits.h"
#include "coordinator/model/cluster_nodes.h"
#include "coordinator/model/cluster_walk.h"
#include "coordinator/model/reason.h"

struct lost { /* nodes that may be forgotten, in order */
    struct node **nodes;
    int count;
};

static bool refers_to(const struct job *job, const char *name)
{
    for (int i = 0; i < job->workers_count; i++)
        if (strcmp(job->workers[i].node, name) == 0)
            return true;
    return strcmp(job->current.master_node, name) == 0 ||
           strcmp(job->forming.master_node, name) == 0;
}

bool node_is_referred_to(const struct cluster *cluster, const struct node *node)
{
    for (const struct job *job = cluster_first_begun_job(cluster); job;
         job = cluster_next_begun_job(cluster, job))
        if (refers_to(job, node->name))
            return true;
    return false;
}

static void note_name(struct strmap *names, const char *name)
{
    if (name[0])
        insist(strmap_set(names, name, names, NULL) == 0);
}

/* Names of all nodes that jobs refer to: one walk over the workers, however many nodes are lost. */
static void collect_names(const struct cluster *cluster, struct strmap *ret)
{
    for (const struct job *job = cluster_first_begun_job(cluster); job;
         job = cluster_next_begun_job(cluster, job)) {
        for (int i = 0; i < job->workers_count; i++)
            note_name(ret, job->workers[i].node);
        note_name(ret, job->current.master_node);
        note_name(ret, job->forming.master_node);
    }
}

static bool is_set_aside(const struct node *node)
{
    return node->want_cordon || node->want_drain;
}

static bool was_brief(const struct node *node)
{
    return node->seen_wall_ms - node->joined_wall_ms < BRIEF_NODE_MS;
}

static int by_worth(const void *left, const void *right)
{
    const struct node *a = *(struct node *const *)left, *b = *(struct node *const *)right;
    if (was_brief(a) != was_brief(b))
        return was_brief(a) ? -1 : 1;
    if (a->seen_wall_ms != b->seen_wall_ms)
        return a->seen_wall_ms < b->seen_wall_ms ? -1 : 1;
    return strcmp(a->name, b->name);
}

static void collect_lost(const struct step *step, struct lost *ret)
{
    struct cluster *cluster = step->cluster;
    struct strmap names = {0};
    collect_names(cluster, &names);
    ret->nodes = calloc((size_t)cluster_nodes_count(cluster) + 1, sizeof(void *));
    insist(ret->nodes);
    for (struct node *node = cluster_first_node(cluster); node;
         node = cluster_next_node(cluster, node)) {
        bool stays = node->state != NODE_LOST || map_first(&node->jobs) ||
                     node->refused_keys[0][0] || node->fault_until_ms > step->now_ms;
        if (!stays && !strmap_find(&names, node->name))
            ret->nodes[ret->count++] = node;
    }
    strmap_fini(&names);
    qsort(ret->nodes, (size_t)ret->count, sizeof(void *), by_worth);
}

static void forget_node(struct step *step, struct node *node)
{
    struct reason reason;
    char text[FORMAT_MAX];
    int64_t silent_ms = step->wall_ms - node->seen_wall_ms;
    reason_set(&reason, REASON_FORGOTTEN, "lost, and not seen for %s%s%.300s",
               format_duration(silent_ms, text), is_set_aside(node) ? "; " : "",
               !is_set_aside(node) ? ""
               : node->want_drain  ? "an administrator had drained it"
                                   : "an administrator had cordoned it");
    reason_hint(&reason, "its agent can join again with a join token");
    struct record *record = step_record(step, "node_forgotten", NULL, node->name, &reason);
    (void)str_copy(record->from, sizeof(record->from), node_state_name(node->state));
    struct action *action = actions_add(step->ret, ACTION_FORGET_NODE);
    (void)str_copy(action->node, sizeof(action->node), node->name);
    (void)str_copy(action->key, sizeof(action->key), node->key);
    cluster_remove_node(step->cluster, node);
}

void nodes_forget(struct step *step)
{
    const struct nodes_forget *limits = &step->event->nodes_forget;
    struct lost lost = {0};
    int beyond = -limits->keep, forgotten = 0;
    collect_lost(step, &lost);
    for (int i = 0; i < lost.count; i++)
        if (!is_set_aside(lost.nodes[i]))
            beyond++;
    for (int i = 0; i < lost.count && forgotten < limits->max; i++) {
        struct node *node = lost.nodes[i];
        bool set_aside = is_set_aside(node);
        int64_t old_ms = set_aside ? limits->set_aside_before_wall_ms : limits->old_before_wall_ms;
        bool is_beyond =
            !set_aside && beyond > 0 && node->seen_wall_ms < limits->beyond_before_wall_ms;
        if (!is_beyond && node->seen_wall_ms >= old_ms)
            continue;
        if (!set_aside)
            beyond--;
        forgotten++;
        forget_node(step, node);
    }
    free(lost.nodes);
}
