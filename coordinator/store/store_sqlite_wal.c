#include "coordinator/store/store_sqlite_wal.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

#include "coordinator/store/store_sqlite_call.h"

struct wal_thread {
    sqlite3 *db;   /* the store's */
    sqlite3 *side; /* the thread's */
    pthread_t thread;
    bool started;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    bool wanted, copying, stopping;
    int copied; /* pages at the start of the log that are in muster.db */
    int pages;  /* in the log, after the last commit; the store's thread only */
};

/* Returns how many pages at the start of the log are copied now; -1 = it failed. */
static int copy(sqlite3 *db)
{
    int pages = 0, copied = 0;
    int rc = sqlite3_wal_checkpoint_v2(db, NULL, SQLITE_CHECKPOINT_PASSIVE, &pages, &copied);
    return rc == SQLITE_OK ? copied : -1;
}

static void *copy_when_wanted(void *arg)
{
    struct wal_thread *self = arg;
    pthread_mutex_lock(&self->lock);
    while (!self->stopping) {
        if (!self->wanted) {
            pthread_cond_wait(&self->changed, &self->lock);
            continue;
        }
        self->wanted = false;
        self->copying = true;
        pthread_mutex_unlock(&self->lock);
        int copied = copy(self->side);
        pthread_mutex_lock(&self->lock);
        self->copying = false;
        if (copied > 0)
            self->copied = copied;
    }
    pthread_mutex_unlock(&self->lock);
    return NULL;
}

/* SQLite calls it after each commit with the number of pages in the log. */
static int on_commit(void *arg, sqlite3 *db, const char *name, int pages)
{
    struct wal_thread *self = arg;
    (void)name;
    pthread_mutex_lock(&self->lock);
    if (pages < self->pages)
        self->copied = 0; /* the log began again */
    self->pages = pages;
    bool full = pages >= WAL_FULL_PAGES && !self->copying && !self->wanted;
    bool here = full && pages - self->copied <= WAL_FEW_PAGES;
    here |= pages >= WAL_MOST_PAGES && !self->copying;
    self->wanted |= full && !here;
    if (self->wanted)
        pthread_cond_signal(&self->changed);
    pthread_mutex_unlock(&self->lock);
    if (here)
        (void)copy(db);
    return SQLITE_OK;
}

static int open_side(struct wal_thread *self, const char *path, struct error *err)
{
    int opened =
        sqlite3_open_v2(path, &self->side,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW, NULL);
    if (opened != SQLITE_OK)
        return store_sqlite_error(self->side, opened, "open", err);
    /* The first read opens the log: later the files at `path` may be others. */
    return store_sqlite_exec(self->side, "PRAGMA synchronous = FULL; SELECT count(*) FROM meta",
                             err);
}

static int start_thread(struct wal_thread *self, struct error *err)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the program's business */
    int rc = pthread_create(&self->thread, NULL, copy_when_wanted, self);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    self->started = !rc;
    if (rc)
        return error_errno(err, rc, "cannot start a thread");
    return 0;
}

int wal_thread_new(sqlite3 *db, const char *path, struct wal_thread **ret, struct error *err)
{
    struct wal_thread *self = calloc(1, sizeof(*self));
    if (!self)
        return error_set(err, E_RESOURCE_EXHAUSTED, "out of memory");
    self->db = db;
    pthread_mutex_init(&self->lock, NULL);
    pthread_cond_init(&self->changed, NULL);
    int rc = open_side(self, path, err);
    if (!rc)
        rc = start_thread(self, err);
    if (rc) {
        wal_thread_free(self);
        return rc;
    }
    sqlite3_wal_hook(db, on_commit, self);
    *ret = self;
    return 0;
}

void wal_thread_free(struct wal_thread *self)
{
    if (!self)
        return;
    sqlite3_wal_hook(self->db, NULL, NULL);
    pthread_mutex_lock(&self->lock);
    self->stopping = true;
    pthread_cond_signal(&self->changed);
    pthread_mutex_unlock(&self->lock);
    if (self->started)
        pthread_join(self->thread, NULL);
    sqlite3_close(self->side);
    pthread_cond_destroy(&self->changed);
    pthread_mutex_destroy(&self->lock);
    free(self);
}
