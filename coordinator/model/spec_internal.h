/* Shared by the files that check a job's specification. Private to model/. */
#ifndef MODEL_SPEC_INTERNAL_H
#define MODEL_SPEC_INTERNAL_H

#include "coordinator/model/spec.h"

struct error;

/* spec.c: the input's value of a setting, or NULL. */
const char *spec_training(const struct spec_input *in, const char *name);

/* spec_mesh.c: mesh dimensions that do not shrink with the world must divide it at every size. Sets
 * mesh_fixed to their product. Requires nodes and workers of `spec`. E_INVALID_ARGUMENT. */
int spec_check_mesh(const struct spec_input *in, struct spec *spec, struct error *err);
/* Sets world_max. E_INVALID_ARGUMENT if libworker would have to connect more workers. */
int spec_check_world(const struct spec_input *in, struct spec *spec, struct error *err);
const char *spec_world_warning(const struct spec *spec); /* NULL = none */
/* elastic: off requires one number of nodes. */
int spec_check_fixed(const struct spec_input *in, struct spec *spec, struct error *err);

/* Letters, digits and '_', not starting with a digit. */
bool spec_is_variable(const char *name);

/* spec_secrets.c: check the names of variables and of secrets; whether they exist is not known
 * here. E_INVALID_ARGUMENT. */
int spec_check_secrets(const struct spec_input *in, struct error *err);
/* One sentence about all variables of `env` that look like secrets, without their values. False:
 * there are none. */
enum { SPEC_WARNING_MAX = 768 };
bool spec_secret_warning(const struct spec_input *in, char ret[SPEC_WARNING_MAX]);

#endif
