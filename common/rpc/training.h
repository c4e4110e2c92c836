/* A job's training settings between the three forms they take: as people write them (`training` of
 * a spec: keys nested or dotted, numbers or text), as the schema carries them (fields of Training
 * where it has one that can say it, else its map `settings`), and as a list of names of the table
 * (common/settings/setting.h) and texts. No state; any thread.
 */
#ifndef RPC_TRAINING_H
#define RPC_TRAINING_H

#include "common/base/arena.h"
#include "common/base/error.h"
#include "common/base/tree.h"
#include "proto/job.pb-c.h"

enum { TRAINING_SETTINGS_MAX = 128 };

struct training_setting {
    const char *name;  /* "ddp.hook" */
    const char *value; /* "fp16" */
};

/* Bring `training` of a spec into the schema's form, in place; keys of `checkpoint` that are
 * settings of libworker alone (patience) move there. E_INVALID_ARGUMENT with line, path, and the
 * nearest name or what the setting takes. */
int training_widen(struct arena *arena, struct tree *spec, struct error *err);

/* What is set, fields first; in `arena`. NULL has none. A field of the schema that is 0 or "" was
 * not said. E_INVALID_ARGUMENT beyond TRAINING_SETTINGS_MAX or where one is there twice. */
int training_list(const Muster__Training *training, struct arena *arena,
                  struct training_setting **ret, int *ret_count, struct error *err);

#endif
