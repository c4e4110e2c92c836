/* The fields of the model in a document: one table per struct, used by reading and writing. Only
 * for document_write.c and document_read.c. */
#ifndef STORE_DOCUMENT_FIELDS_H
#define STORE_DOCUMENT_FIELDS_H

#include <stddef.h>

enum { DOCUMENT_TREE_MAX_BYTES = 1 << 30 }; /* of the tree a document is made from */

enum field_kind {
    FIELD_TEXT,
    FIELD_INT,
    FIELD_I64,
    FIELD_U64,
    FIELD_DOUBLE,
    FIELD_BOOL,
    FIELD_NAME, /* an enum, by the name of its value */
    FIELD_STRUCT,
};

struct field {
    const char *name; /* NULL ends a table */
    enum field_kind kind;
    size_t offset, size;
    const char *const *names;   /* of FIELD_NAME, NULL-terminated */
    const struct field *fields; /* of FIELD_STRUCT */
};

/* Each ended by a NULL name. */
extern const struct field document_reason_fields[], document_gpu_fields[], document_label_fields[],
    document_node_fields[], document_worker_fields[], document_checkpoint_fields[],
    document_job_fields[], document_tenant_fields[];

#endif
