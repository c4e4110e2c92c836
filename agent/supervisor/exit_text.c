#include "agent/supervisor/exit_text.h"

#include <signal.h>
#include <string.h>

#include "common/base/parse.h"
#include "common/base/str.h"

static void describe_memory(struct worker_exit *exit, const struct exit_circumstances *c)
{
    char peak[FORMAT_MAX], limit[FORMAT_MAX];
    if (c->limit_bytes > 0)
        (void)str_printf(exit->text, sizeof(exit->text),
                         "killed by SIGKILL (out of memory: %s of %s)",
                         format_bytes(c->peak_bytes, peak), format_bytes(c->limit_bytes, limit));
    else
        (void)str_copy(exit->text, sizeof(exit->text), "killed by SIGKILL (out of memory)");
}

void exit_describe(struct worker_exit *exit, const struct exit_circumstances *c)
{
    if (exit->signal == 0) {
        (void)str_printf(exit->text, sizeof(exit->text), "exited with code %d%s", exit->code,
                         exit->oom ? " (part of it was killed: out of memory)" : "");
        return;
    }
    if (exit->oom && exit->signal == SIGKILL) {
        describe_memory(exit, c);
        return;
    }
    const char *name = sigabbrev_np(exit->signal);
    const char *why = "";
    if (c->core_dumped)
        why = " (core dumped)";
    else if (c->asked_signal && (exit->signal == SIGTERM || exit->signal == SIGKILL ||
                                 exit->signal == c->asked_signal))
        why = " (asked to stop)";
    if (name)
        (void)str_printf(exit->text, sizeof(exit->text), "killed by SIG%s%s", name, why);
    else
        (void)str_printf(exit->text, sizeof(exit->text), "killed by signal %d%s", exit->signal,
                         why);
}
