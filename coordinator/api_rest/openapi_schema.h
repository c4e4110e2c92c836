/* JSON schemas of messages for openapi.c. In answers every field is written. In requests only the
 * fields that a rule requires must exist, and unknown fields are refused. Pure. */
#ifndef API_REST_OPENAPI_SCHEMA_H
#define API_REST_OPENAPI_SCHEMA_H

#include <stdbool.h>

#include <protobuf-c/protobuf-c.h>

#include "common/base/buf.h"

enum { OPENAPI_SCHEMAS_MAX = 128 };

struct openapi_schemas { /* messages met so far, in the order they are met */
    struct openapi_schema {
        const ProtobufCMessageDescriptor *type;
        bool input;
    } list[OPENAPI_SCHEMAS_MAX];
    int count;
};

/* "muster.Job", of what is asked for "muster.JobSpec.Input". */
void openapi_schema_name(const struct openapi_schema *schema, struct buf *out);
/* A reference to it; it is listed, and so described later. */
void openapi_schema_ref(struct openapi_schemas *schemas, const struct openapi_schema *schema,
                        struct buf *out);

/* "name": {...} of a listed one; lists those it refers to. */
void openapi_schema_put(struct openapi_schemas *schemas, int which, struct buf *out);

/* {"type":"object",...} of a request without those fields (NULL, or ended by NULL). */
void openapi_body_put(struct openapi_schemas *schemas, const ProtobufCMessageDescriptor *type,
                      const char *const *without, struct buf *out);

/* The schema of a parameter in an address; `type` is the message of its field. */
void openapi_parameter_schema(const ProtobufCMessageDescriptor *type,
                              const ProtobufCFieldDescriptor *field, struct buf *out);
bool openapi_is_required(const ProtobufCMessageDescriptor *type,
                         const ProtobufCFieldDescriptor *field);

#endif
