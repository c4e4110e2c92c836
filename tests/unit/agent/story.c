#include "tests/unit/agent/story.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/str.h"

struct story story_begin(void)
{
    struct story s = {.core = agent_core_new(), .now_ms = 1000};
    return s;
}

void story_end(struct story *s)
{
    agent_core_free(s->core);
    agent_actions_fini(&s->actions);
    buf_fini(&s->trace);
}

static void write_answer(struct buf *out, const struct agent_action *a)
{
    unsigned long long request = a->request, generation = a->answer.generation;
    switch (a->answer.kind) {
    case AGENT_ANSWER_HELLO:
        buf_printf(out, "hello#%llu(g%llu)", request, generation);
        break;
    case AGENT_ANSWER_JOIN:
        if (a->answer.stop)
            buf_printf(out, "join#%llu(stop)", request);
        else if (a->answer.ready)
            buf_printf(out, "join#%llu(ready g%llu)", request, generation);
        else
            buf_printf(out, "join#%llu(go g%llu)", request, generation);
        break;
    case AGENT_ANSWER_WATCH:
        if (a->answer.stop)
            buf_printf(out, "watch#%llu(stop)", request);
        else
            buf_printf(out, "watch#%llu(g%llu)", request, generation);
        break;
    case AGENT_ANSWER_PROGRESS:
        buf_printf(out, "progress#%llu", request);
        break;
    case AGENT_ANSWER_LOST_PEERS:
        buf_printf(out, "lost#%llu", request);
        break;
    }
}

static void write_action(struct story *s, const struct agent_action *a)
{
    struct buf *out = &s->trace;
    unsigned long long uid = a->key.uid;
    if (a->kind == AGENT_ACTION_WAKE_AT && !s->wakes)
        return;
    if (out->size)
        buf_char(out, ' ');
    switch (a->kind) {
    case AGENT_ACTION_REGISTER:
        buf_str(out, "register");
        break;
    case AGENT_ACTION_REPORT:
        buf_str(out, "report");
        break;
    case AGENT_ACTION_START:
        buf_printf(out, "start(%s/%llu@%llu)", a->key.job, uid,
                   (unsigned long long)a->assignment->generation);
        break;
    case AGENT_ACTION_TERMINATE:
        buf_printf(out, "term(%s/%llu)", a->key.job, uid);
        break;
    case AGENT_ACTION_SIGNAL:
        buf_printf(out, "signal(%s/%llu)", a->key.job, uid);
        break;
    case AGENT_ACTION_KILL:
        buf_printf(out, "kill(%s/%llu)", a->key.job, uid);
        break;
    case AGENT_ACTION_STACKS:
        buf_printf(out, "stacks(%s/%llu)", a->key.job, uid);
        break;
    case AGENT_ACTION_REMEMBER:
        buf_printf(out, "remember(%s/%llu:%llu)", a->key.job, uid,
                   (unsigned long long)a->memory.generation);
        break;
    case AGENT_ACTION_FORGET:
        buf_printf(out, "forget(%s/%llu)", a->key.job, uid);
        break;
    case AGENT_ACTION_ANSWER:
        write_answer(out, a);
        break;
    case AGENT_ACTION_REFUSE:
        buf_printf(out, "refuse#%llu(%s)", (unsigned long long)a->request,
                   error_name(a->error->code));
        break;
    case AGENT_ACTION_READ_GPUS:
        buf_str(out, "read");
        break;
    case AGENT_ACTION_WAKE_AT:
        buf_printf(out, "wake(%lld)", (long long)a->at_ms);
        break;
    case AGENT_ACTION_LEAVE:
        buf_str(out, "leave");
        break;
    }
}

const char *happen(struct story *s, struct agent_event event)
{
    event.now_ms = s->now_ms;
    agent_actions_clear(&s->actions);
    buf_clear(&s->trace);
    agent_step(s->core, &event, &s->actions);
    for (int i = 0; i < s->actions.count; i++)
        write_action(s, &s->actions.items[i]);
    return buf_cstr(&s->trace);
}

struct assignment *assignment_of(const struct want *want)
{
    static const struct membership_member self = {.rank = 0, .endpoint = "e", .node = "n"};
    struct assignment *a = assignment_new();
    a->key = KEY("j", want->uid);
    a->generation = want->generation;
    a->stop = want->stop;
    a->grace_ms = want->grace_ms;
    a->leave_ms = want->leave_ms;
    a->signal_wall_ms = want->signal_wall_ms;
    a->stacks_wall_ms = want->stacks_wall_ms;
    a->world = 1;
    a->slot = want->slot;
    a->slots = want->slots;
    a->token = arena_printf(&a->arena, "token-%llu-%llu", (unsigned long long)want->uid,
                            (unsigned long long)want->generation);
    if (want->formed) {
        a->members = &self;
        a->members_count = 1;
    }
    return a;
}

const char *desire(struct story *s, const struct want *wants, int count)
{
    struct assignment *list[8];
    for (int i = 0; i < count; i++)
        list[i] = assignment_of(&wants[i]);
    const char *trace = happen(s, EVENT(DESIRED, .desired = {.assignments = list, .count = count}));
    for (int i = 0; i < count; i++)
        assignment_release(list[i]);
    return trace;
}

const struct worker_exit exit_0 = {.code = 0, .text = "exited with code 0"};

const struct agent_worker *story_worker(struct story *s, uint64_t uid)
{
    struct worker_key key = KEY("j", uid);
    return agent_core_find(s->core, &key);
}

void story_join(struct story *s)
{
    happen(s, EVENT(REGISTERED));
    desire(s, &(struct want){.uid = 1, .generation = 1}, 1);
    happen(s, ABOUT(STARTED, 1, .started = {.pid = 42}));
    happen(s, ABOUT(HELLO, 1, .request = 1));
    happen(s, ABOUT(JOIN, 1, .request = 2, .deadline_ms = 60000,
                    .join = {.generation = 1, .endpoint = "e"}));
    desire(s, &(struct want){.uid = 1, .generation = 1, .formed = true}, 1);
    cr_assert_eq(story_worker(s, 1)->state, AGENT_WORKER_JOINED);
}
