/* Job specs as people write them: YAML or JSON in, Muster__JobSpec out. Short forms are first
 * widened to the schema's shape (spec_widen), absent settings get their defaults, and every refusal
 * names file, line and path. The coordinator checks the values themselves (names, ranges,
 * durations), because it must do so anyway. No state; any thread.
 *
 *       nodes: 2                   {min: 2, max: 2}; {min: 2} and {max: 2} are completed
 *       command: python3 train.py  [/bin/sh, -c, "python3 train.py"]
 *       priority: 5                "5";  memory: 1073741824 "1073741824";  max_runtime: 90 "90s"
 *       checkpoint: /dir           {dir: /dir};  checkpoint.every: 200 "200 steps"
 *       restart: 3                 {max: 3};  restart: off is {max: 0}
 *       elastic: false             off
 *       env, constraints           numbers and booleans become text
 */
#ifndef RPC_SPEC_H
#define RPC_SPEC_H

#include <stddef.h>

#include "common/base/arena.h"
#include "common/base/error.h"
#include "common/base/tree.h"
#include "proto/job.pb-c.h"

enum { SPEC_MAX_BYTES = 256 << 10 };

/* Widen short forms and fill defaults in place. E_INVALID_ARGUMENT for a wrong short form. */
int spec_widen(struct arena *arena, struct tree *spec, struct error *err);

/* Widen and transcode a tree (a parsed REST body, or one built by the CLI). Free it with
 * rpc_message_free. */
int spec_from_tree(struct arena *arena, struct tree *tree, Muster__JobSpec **ret,
                   struct error *err);

/* YAML or JSON by content: JSON when it starts with '{'. `name` is shown in errors, may be NULL. */
int spec_parse(const char *name, const char *text, size_t size, Muster__JobSpec **ret,
               struct error *err);

/* Read a file, "-" = standard input. SPEC_MAX_BYTES at most. */
int spec_read_file(const char *path, Muster__JobSpec **ret, struct error *err);

/* The name of an unnamed job: its program ("build/examples/gpt" is "gpt"), or the script that a
 * shell or Python runs ("python3 train.py" is "train"). "" without a command. */
void spec_name_of(const Muster__JobSpec *spec, char *ret, size_t size);

#endif
