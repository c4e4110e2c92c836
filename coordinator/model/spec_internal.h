/* What the files that check a job's specification share. Private to model/. */
#ifndef MODEL_SPEC_INTERNAL_H
#define MODEL_SPEC_INTERNAL_H

#include "coordinator/model/spec.h"

struct error;

/* spec.c: what the input says for a setting; NULL: nothing. */
const char *spec_training(const struct spec_input *in, const char *name);

/* spec_mesh.c: the parts of the mesh that do not shrink with the world must divide it at every
 * size; their product becomes mesh_fixed. Nodes and workers of `spec` are set. E_INVALID_ARGUMENT.
 */
int spec_check_mesh(const struct spec_input *in, struct spec *spec, struct error *err);
/* Sets world_max. E_INVALID_ARGUMENT where libworker would have to connect more. */
int spec_check_world(const struct spec_input *in, struct spec *spec, struct error *err);
const char *spec_world_warning(const struct spec *spec); /* NULL = none */
/* elastic: off goes with one number of nodes. */
int spec_check_fixed(const struct spec_input *in, struct spec *spec, struct error *err);

/* Letters, digits and '_', first no digit. */
bool spec_is_variable(const char *name);

/* spec_secrets.c: names of variables and of secrets; whether they are there is not known here.
 * E_INVALID_ARGUMENT. */
int spec_check_secrets(const struct spec_input *in, struct error *err);
/* One sentence for all variables of `env` that look like secrets, without their values. False: none
 * does. */
enum { SPEC_WARNING_MAX = 768 };
bool spec_secret_warning(const struct spec_input *in, char ret[SPEC_WARNING_MAX]);

#endif
