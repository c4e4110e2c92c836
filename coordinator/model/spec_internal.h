/* Shared by the files that check a job's specification. Private to model/. All of them return
 * E_INVALID_ARGUMENT with the field's path and a hint. */
#ifndef MODEL_SPEC_INTERNAL_H
#define MODEL_SPEC_INTERNAL_H

#include "common/base/arena.h"
#include "common/settings/setting.h"
#include "coordinator/model/spec.h"

/* spec.c: a specification and its strings, freed together. Aborts without memory. */
struct spec_block {
    struct spec spec;
    struct arena arena;
};
struct spec_block *spec_block_new(void);

/* spec_input.c: true unless NULL or "". */
bool spec_given(const char *text);
/* The input's value of a setting, or NULL. */
const char *spec_training(const struct spec_input *in, const char *name);
/* The job's value of each setting, from `training`, `env` or `checkpoint`; NULL if absent. */
void spec_settings(const struct spec_input *in, const char *ret[SETTINGS_COUNT]);
/* Letters, digits and '_', not starting with a digit. */
bool spec_is_variable(const char *name);
/* Sets the error, its field and its hint. */
int spec_refuse(struct error *err, const char *field, const char *hint, const char *text);

/* spec_value.c: parse texts and numbers and check all bounds, each by its row of the table of
 * fields. `ret` borrows texts. */
int spec_values(const struct spec_input *in, struct spec_value ret[JOB_FIELDS_COUNT],
                struct error *err);

/* spec_check.c */
int spec_check_constraints(const struct spec_input *in, struct error *err);
int spec_check_env(const struct spec_input *in, struct error *err);
int spec_check_training(const struct spec_input *in, struct error *err);

/* spec_mesh.c: mesh dimensions that do not shrink with the world must divide it at every size. Sets
 * mesh_fixed to their product. Requires nodes and workers of `spec`. */
int spec_check_mesh(const struct spec_input *in, struct spec *spec, struct error *err);
/* Sets world_max. Refused if libworker would have to connect more workers. */
int spec_check_world(const struct spec_input *in, struct spec *spec, struct error *err);
const char *spec_world_warning(const struct spec *spec); /* NULL = none */
/* elastic: off requires one number of nodes. */
int spec_check_fixed(const struct spec_input *in, struct spec *spec, struct error *err);

/* spec_secrets.c: check the names of variables and of secrets; whether they exist is not known
 * here. */
int spec_check_secrets(const struct spec_input *in, struct error *err);
/* One sentence about all variables of `env` that look like secrets, without their values. False:
 * there are none. */
enum { SPEC_WARNING_MAX = 768 };
bool spec_secret_warning(const struct spec_input *in, char ret[SPEC_WARNING_MAX]);

#endif
