/* Loads the jobs of a store into a cluster, on two threads. This one steps through the rows and
 * adds the parsed jobs in their order. The other parses the documents of the previous batch, which
 * is most of the work; this one helps if that is not finished. */
#include "coordinator/store/store_sqlite_load.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/buf.h"
#include "common/base/str.h"
#include "coordinator/store/document.h"

enum { BATCH_ROWS = 512, BATCH_BYTES = 1 << 20 };

struct row {
    struct job *job; /* its spec and secret are filled; NULL once the cluster has it */
    size_t at, size; /* of its document in the batch */
    int rc;          /* of reading it */
};

struct batch {
    struct buf text;
    struct row rows[BATCH_ROWS];
    int count;
    atomic_int next; /* row to be read */
    pthread_t reader;
    bool has_reader;
};

struct loading {
    struct store_sqlite *store;
    const struct store_loader *loader;
    struct cluster *cluster;
    sqlite3_stmt *stmt;
    bool ended; /* no row is left: another step would start from the beginning */
    struct batch batches[2];
};

static void read_rows(struct batch *batch)
{
    for (int i; (i = atomic_fetch_add(&batch->next, 1)) < batch->count;) {
        struct row *row = &batch->rows[i];
        row->rc = document_read_job(batch->text.data + row->at, row->size, row->job, NULL);
    }
}

static void *reader_main(void *arg)
{
    read_rows(arg);
    return NULL;
}

/* Without a thread this one reads all. */
static void read_aside(struct batch *batch)
{
    batch->has_reader = pthread_create(&batch->reader, NULL, reader_main, batch) == 0;
}

static void finish_reading(struct batch *batch)
{
    read_rows(batch);
    if (batch->has_reader)
        (void)pthread_join(batch->reader, NULL);
    batch->has_reader = false;
}

static int read_row(struct loading *loading, struct batch *batch, struct error *err)
{
    sqlite3_stmt *stmt = loading->stmt;
    size_t size = (size_t)sqlite3_column_bytes(stmt, 3);
    struct row *row = &batch->rows[batch->count];
    *row = (struct row){.at = batch->text.size, .size = size, .job = calloc(1, sizeof(*row->job))};
    if (!row->job || buf_append(&batch->text, sqlite3_column_text(stmt, 3), size)) {
        free(row->job);
        return error_set(err, E_RESOURCE_EXHAUSTED, "out of memory");
    }
    batch->count++;
    (void)str_copy(row->job->id, sizeof(row->job->id), column(stmt, 0));
    if (sqlite3_column_bytes(stmt, 1) != SECRET_BYTES)
        return error_set(err, E_DATA_LOSS, "secret has the wrong size");
    memcpy(row->job->secret, sqlite3_column_blob(stmt, 1), SECRET_BYTES);
    return loading->loader->parse_spec(loading->loader->arg, column(stmt, 2), &row->job->spec, err);
}

static int fill_batch(struct loading *loading, struct batch *batch, struct error *err)
{
    int rc = 0;
    buf_clear(&batch->text);
    batch->count = 0;
    atomic_store(&batch->next, 0);
    while (!rc && !loading->ended && batch->count < BATCH_ROWS && batch->text.size < BATCH_BYTES) {
        int step = sqlite3_step(loading->stmt);
        loading->ended = step != SQLITE_ROW;
        if (step == SQLITE_ROW)
            rc = read_row(loading, batch, err);
        else if (step != SQLITE_DONE)
            return store_sqlite_error(loading->store->db, step, "load jobs", err);
        if (rc)
            error_wrap(err, "stored job %s", column(loading->stmt, 0));
    }
    return rc;
}

/* Again, for the sentence. */
static int explain_row(const struct batch *batch, const struct row *row, struct error *err)
{
    struct job *job = calloc(1, sizeof(*job));
    int rc = E_RESOURCE_EXHAUSTED;
    if (job)
        rc = document_read_job(batch->text.data + row->at, row->size, job, err);
    job_free(job);
    if (rc)
        return rc;
    return row->rc;
}

static int add_rows(struct loading *loading, struct batch *batch, struct error *err)
{
    int rc = 0;
    for (int i = 0; !rc && i < batch->count; i++) {
        struct row *row = &batch->rows[i];
        rc = row->rc ? explain_row(batch, row, err)
                     : cluster_add_job(loading->cluster, row->job, err);
        if (rc)
            error_wrap(err, "stored job %s", row->job->id);
        else
            row->job = NULL;
    }
    return rc;
}

static int load_batches(struct loading *loading, struct error *err)
{
    struct batch *batch = &loading->batches[0], *ahead = &loading->batches[1];
    int rc = fill_batch(loading, batch, err);
    while (!rc && batch->count > 0) {
        struct batch *done = batch;
        read_aside(batch);
        rc = fill_batch(loading, ahead, err);
        finish_reading(batch);
        if (!rc)
            rc = add_rows(loading, batch, err);
        batch = ahead;
        ahead = done;
    }
    return rc;
}

static void batch_fini(struct batch *batch)
{
    for (int i = 0; i < batch->count; i++)
        job_free(batch->rows[i].job);
    buf_fini(&batch->text);
}

int store_sqlite_load_jobs(struct store_sqlite *store, const struct store_loader *loader,
                           struct cluster *cluster, struct error *err)
{
    struct loading *loading = calloc(1, sizeof(*loading));
    if (!loading)
        return error_set(err, E_RESOURCE_EXHAUSTED, "out of memory");
    *loading = (struct loading){
        .store = store, .loader = loader, .cluster = cluster, .stmt = statement(store, S_JOBS)};
    buf_init(&loading->batches[0].text, DOCUMENT_MAX_BYTES + BATCH_BYTES);
    buf_init(&loading->batches[1].text, DOCUMENT_MAX_BYTES + BATCH_BYTES);
    int rc = load_batches(loading, err);
    sqlite3_reset(loading->stmt);
    batch_fini(&loading->batches[0]);
    batch_fini(&loading->batches[1]);
    free(loading);
    return rc;
}
