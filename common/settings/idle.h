/* Settings that were given and count for nothing, because another one is not what they go with:
 * fsdp.prefetch under strategy ddp, checkpoint.every without checkpoint.dir. One table of rules, in
 * idle.c. Pure; any thread.
 */
#ifndef SETTINGS_IDLE_H
#define SETTINGS_IDLE_H

#include "common/settings/setting.h"

enum { IDLE_TEXT_MAX = 256, IDLE_MAX = 32 };

struct idle_setting {
    enum setting setting;
    char text[IDLE_TEXT_MAX]; /* a sentence: what does nothing, why, what to set */
};

/* `given` has each setting's value as text, NULL where nobody said one and the default holds.
 * Returns how many are idle, in the order of the table; a value that is the default is never. */
int settings_idle(const char *const given[SETTINGS_COUNT], struct idle_setting ret[IDLE_MAX]);

#endif
