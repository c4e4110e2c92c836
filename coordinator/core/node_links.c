#include "coordinator/core/node_links.h"

#include <string.h>

#include "common/base/buf.h"
#include "common/base/str.h"
#include "coordinator/core/answer.h"
#include "coordinator/core/dirty_set.h"

struct change { /* of a node's links, by slot */
    const struct node *node;
    const struct gpu *now;
    uint8_t from[NODE_GPUS_MAX][GPU_LINKS_MAX], to[NODE_GPUS_MAX][GPU_LINKS_MAX];
};

static void read_change(const struct node *node, const struct gpu *now, struct change *ret)
{
    ret->node = node;
    ret->now = now;
    for (int i = 0; i < node->gpus_count; i++) {
        (void)gpu_links_read(node->gpus[i].links, ret->from[i]);
        (void)gpu_links_read(now[i].links, ret->to[i]);
    }
}

static bool pair_changed(const struct change *change, int i, int j)
{
    uint8_t from = change->from[i][j], to = change->to[i][j];
    return i != j && from != to && from != GPU_LINK_UNKNOWN && to != GPU_LINK_UNKNOWN;
}

static int pairs_of(const struct change *change, int i)
{
    int pairs = 0;
    for (int j = 0; j < change->node->gpus_count; j++)
        if (pair_changed(change, i, j))
            pairs++;
    return pairs;
}

static void hint(const struct node *node, bool worse, struct reason *ret)
{
    if (worse)
        reason_hint(ret,
                    "`nvidia-smi nvlink --status` and the kernel's log there show why; jobs that "
                    "start get GPUs by the new links, those that run keep theirs; `muster drain "
                    "%s` empties it for a repair",
                    node->name);
    else
        reason_hint(ret, "jobs that start get GPUs by the new links, those that run keep theirs");
}

/* The GPU with the most changed pairs, and those of its pairs that changed in the same way. */
static bool say_pairs(const struct change *change, struct reason *ret)
{
    const struct node *node = change->node;
    int most = 0, first = -1, pairs = 0, said = 0;
    for (int i = 0; i < node->gpus_count; i++) {
        pairs += pairs_of(change, i); /* each pair twice */
        most = pairs_of(change, i) > pairs_of(change, most) ? i : most;
    }
    if (!pairs)
        return false;
    struct buf others = {0};
    for (int j = 0; j < node->gpus_count; j++) {
        if (!pair_changed(change, most, j))
            continue;
        first = first < 0 ? j : first;
        if (change->from[most][j] != change->from[most][first] ||
            change->to[most][j] != change->to[most][first])
            continue;
        (void)buf_printf(&others, "%s%d", said ? ", " : "", node->gpus[j].index);
        said++;
    }
    char from[GPU_LINK_WORD_BYTES], to[GPU_LINK_WORD_BYTES], more[48] = "";
    gpu_link_write(change->from[most][first], from);
    gpu_link_write(change->to[most][first], to);
    int rest = (pairs - 2 * said) / 2;
    if (rest > 0)
        (void)str_printf(more, sizeof(more), "; %d more pair%s changed", rest, str_plural(rest));
    reason_set(ret, REASON_GPU_LINKS, "GPU %d is connected with GPU%s %s by %s instead of %s%s",
               node->gpus[most].index, str_plural(said), buf_cstr(&others), to, from, more);
    hint(node, change->to[most][first] < change->from[most][first], ret);
    buf_fini(&others);
    return true;
}

/* Where no pair is affected: a lone GPU, or both ends of a pair had more links than the other. */
static bool say_nvlinks(const struct change *change, struct reason *ret)
{
    const struct node *node = change->node;
    for (int i = 0; i < node->gpus_count; i++) {
        int from = node->gpus[i].nvlinks, to = change->now[i].nvlinks;
        if (from == to || from < 0 || to < 0)
            continue;
        reason_set(ret, REASON_GPU_LINKS, "GPU %d has %d active NVLink%s instead of %d",
                   node->gpus[i].index, to, str_plural(to), from);
        hint(node, to < from, ret);
        return true;
    }
    return false;
}

static bool same_gpus(const struct node *node, const struct gpu *now, int count)
{
    bool same = count == node->gpus_count;
    for (int i = 0; i < count && same; i++)
        same = strcmp(node->gpus[i].uuid, now[i].uuid) == 0;
    return same;
}

static void record_change(struct step *step, const struct node *node, const struct gpu *now)
{
    struct change change;
    struct reason reason;
    read_change(node, now, &change);
    if (say_pairs(&change, &reason) || say_nvlinks(&change, &reason))
        step_record(step, "gpu_links", NULL, node->name, &reason);
}

void node_note_links(struct step *step, const struct node *node, const struct gpu *now, int count)
{
    if (same_gpus(node, now, count))
        record_change(step, node, now);
}

static bool link_differs(const struct gpu *a, const struct gpu *b)
{
    return a->nvlinks != b->nvlinks || a->nvswitch != b->nvswitch ||
           strcmp(a->links, b->links) != 0;
}

void node_set_links(struct step *step, struct node *node)
{
    const struct gpu_news *news = &step->event->node_report.gpus;
    bool differ = false;
    if (news->links_count != node->gpus_count)
        return;
    for (int i = 0; i < news->links_count; i++)
        differ = differ || link_differs(&node->gpus[i], &news->links[i]);
    if (!differ)
        return;
    record_change(step, node, news->links);
    for (int i = 0; i < news->links_count; i++) {
        node->gpus[i].nvlinks = news->links[i].nvlinks;
        node->gpus[i].nvswitch = news->links[i].nvswitch;
        memcpy(node->gpus[i].links, news->links[i].links, sizeof(node->gpus[i].links));
    }
    step->wants_pass = true;
    step_store_node(step, node);
}
