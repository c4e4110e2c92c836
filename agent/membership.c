#include "agent/membership.h"

#include <string.h>

#include "common/base/str.h"

bool membership_accepts(const struct agent_membership *member, uint64_t newest_event,
                        int64_t restored_wall_ms)
{
    return newest_event == 0 || restored_wall_ms > member->restored_wall_ms ||
           (restored_wall_ms == member->restored_wall_ms && newest_event >= member->event);
}

int membership_check(const struct agent_membership *member,
                     const Muster__RegisterNodeAnswer *answer, struct error *err)
{
    bool same = strcmp(member->cluster, answer->cluster) == 0;
    if (!member->cluster[0] ||
        (same && membership_accepts(member, answer->event, answer->restored_wall_ms)))
        return 0;
    error_set(err, E_FAILED_PRECONDITION, "this node has workers of cluster %s; %s",
              member->cluster,
              same ? "the coordinator's store has an older history"
                   : "the coordinator is another cluster's");
    error_hint(err, "restore the coordinator's store; or, to join this cluster, start the agent "
                    "once with --join-again");
    return E_FAILED_PRECONDITION;
}

static void changed(struct membership_watch *watch, int64_t now_ms)
{
    watch->save_after_ms = now_ms + MEMBERSHIP_SAVE_MS;
    if (watch->on_change)
        watch->on_change(watch->arg, &watch->member);
}

int membership_join(struct membership_watch *watch, const Muster__RegisterNodeAnswer *answer,
                    bool has_workers, int64_t now_ms, struct error *err)
{
    struct agent_membership *member = &watch->member;
    int rc = has_workers ? membership_check(member, answer, err) : 0;
    if (rc)
        return rc;
    (void)str_copy(member->cluster, sizeof(member->cluster), answer->cluster);
    member->event = answer->event;
    member->restored_wall_ms = answer->restored_wall_ms;
    changed(watch, now_ms);
    return 0;
}

bool membership_check_events(struct membership_watch *watch, uint64_t newest_event,
                             int64_t restored_wall_ms, bool has_workers, int64_t now_ms)
{
    struct agent_membership *member = &watch->member;
    if (has_workers && !membership_accepts(member, newest_event, restored_wall_ms))
        return false;
    bool restored = restored_wall_ms != member->restored_wall_ms;
    bool news = newest_event != member->event;
    member->event = newest_event;
    member->restored_wall_ms = restored_wall_ms;
    if (restored || (news && now_ms >= watch->save_after_ms))
        changed(watch, now_ms);
    return true;
}
