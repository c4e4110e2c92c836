/* A worker's terminals with real processes, and what was seen of each. */
#ifndef TERMINAL_RIG_H
#define TERMINAL_RIG_H

#include "agent/supervisor/terminal.h"
#include "tests/unit/agent/supervisor_rig.h"

struct seen { /* of one terminal */
    struct terminal *terminal;
    struct buf text[2]; /* of its streams */
    size_t bytes;       /* all, also when `text` is not kept */
    bool counts_only, pauses;
    int rooms;
    bool room;
    bool ended;
    struct terminal_end end;
};

void terminal_rig_begin(struct rig *rig);
void terminal_rig_finish(struct rig *rig); /* no child of this process is left */

/* A worker that runs. */
struct rig_worker *rig_sleeper(struct rig *rig, uint64_t uid);

struct terminal_events seen_events(struct seen *seen);
int try_open(struct rig *rig, struct seen *seen, const struct terminal_wish *wish,
             struct error *err); /* beside worker 1 */
void open_wish(struct rig *rig, struct seen *seen, const struct terminal_wish *wish);

/* /bin/sh -c, with or without a pty. */
void open_sh(struct rig *rig, struct seen *seen, bool pty, const char *script);
void close_seen(struct seen *seen);

void type_text(struct seen *seen, const char *text);
bool wait_text(struct rig *rig, struct seen *seen, const char *text);
long number_after(struct rig *rig, struct seen *seen, const char *name);
bool wait_gone(struct rig *rig, pid_t pid);

#endif
