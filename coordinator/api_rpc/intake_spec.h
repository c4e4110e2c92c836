/* A job's specification from the wire to the model. Each field of the message is copied by its row
 * of common/settings/job_field.h; spec_build validates the whole. Pure. */
#ifndef API_RPC_INTAKE_SPEC_H
#define API_RPC_INTAKE_SPEC_H

#include <stdbool.h>

#include "common/base/error.h"
#include "coordinator/model/spec.h"
#include "proto/job.pb-c.h"

/* Validate by spec_build, name an unnamed job after its command, and store the message's JSON in
 * the spec. The caller gets one reference. */
int intake_spec(const Muster__JobSpec *message, struct spec **ret, struct error *err);

/* The same from the stored JSON. */
int intake_stored_spec(const Muster__JobSpec *message, const char *json, struct spec **ret,
                       struct error *err);

/* True if both ask for the same job, whatever today's rules accept. */
bool intake_same(const Muster__JobSpec *a, const Muster__JobSpec *b);

#endif
