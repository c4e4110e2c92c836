/* Converts a job's training settings between their three forms. People write `training` of a spec:
 * keys nested or dotted, numbers or text. The schema has fields of Training where one fits, and
 * otherwise its map `settings`. The third form is a list of table names (common/settings/setting.h)
 * and texts. No state; any thread. */
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

/* Convert `training` of a spec into the schema's form, in place. Keys of `checkpoint` that are
 * settings of libworker only (patience) are moved into `training`. E_INVALID_ARGUMENT with line,
 * path, and the nearest name or the accepted values. */
int training_widen(struct arena *arena, struct tree *spec, struct error *err);

/* The settings that are present, fields first; in `arena`. The list of NULL is empty. A field of
 * the schema that is 0 or "" is absent. E_INVALID_ARGUMENT beyond TRAINING_SETTINGS_MAX or for a
 * duplicate. */
int training_list(const Muster__Training *training, struct arena *arena,
                  struct training_setting **ret, int *ret_count, struct error *err);

#endif
