/* Jobs, nodes and reasons as JSON documents, the same for every store. One table of fields is used
 * for reading and writing; a zero or empty field is left out. Documents contain what a restart
 * needs. Leases and connections are not included; specs and secrets are stored separately.
 *
 * Times are stored unchanged (the driver adjusts monotonic ones after a restart).
 */
#ifndef STORE_DOCUMENT_H
#define STORE_DOCUMENT_H

#include "common/base/buf.h"
#include "common/base/error.h"
#include "coordinator/model/cluster.h"
#include "coordinator/store/store.h"

enum { DOCUMENT_MAX_BYTES = 64 << 20 }; /* 100k workers with their exits fit */

/* Append. E_RESOURCE_EXHAUSTED if it does not fit. */
int document_write_job(const struct job *job, struct buf *out, struct error *err);
int document_write_node(const struct node *node, struct buf *out, struct error *err);
int document_write_tenant(const struct store_tenant *tenant, struct buf *out, struct error *err);
int document_write_reason(const struct reason *reason, struct buf *out, struct error *err);

/* Fill zeroed memory. On failure too the caller frees the job with job_free. Unknown fields are
 * ignored: an older program of the same schema version can read a newer document. E_DATA_LOSS if it
 * is no document. */
int document_read_job(const char *text, size_t size, struct job *ret, struct error *err);
int document_read_node(const char *text, size_t size, struct node *ret, struct error *err);
int document_read_tenant(const char *text, size_t size, struct store_tenant *ret,
                         struct error *err);
/* Append the job's document as a restore is to leave it (RESTORE_SKIPS, store.h). */
int document_step_over_job(const char *text, size_t size, struct buf *out, struct error *err);
int document_read_reason(const char *text, size_t size, struct reason *ret, struct error *err);

#endif
