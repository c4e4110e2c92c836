#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <worker/error.h>

#include "common/base/str.h"
#include "libworker/checkpoint/list.h"
#include "libworker/checkpoint/saver.h"
#include "libworker/checkpoint/write.h"
#include "libworker/device/reach.h"

struct saver {
    struct saver_options options;
    char dir[CHECKPOINT_PATH_MAX];
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool full; /* a snapshot waits or is being written */
    bool closing;
    atomic_bool cancelled; /* of the write in progress */
    struct error result;   /* of the last write */

    /* The snapshot; the thread's while full, else the caller's. */
    struct checkpoint_tensor *tensors;
    int n_tensors, tensors_capacity;
    char *data;
    size_t data_capacity;
    struct train_numbers numbers;
    struct checkpoint_about about;
    char strategy[32];
};

static bool cancelled(void *arg)
{
    return atomic_load(&((struct saver *)arg)->cancelled);
}

void saver_cancel(struct saver *saver)
{
    atomic_store(&saver->cancelled, true);
}

static int write_one(struct saver *saver, const struct checkpoint_write *what, struct error *err)
{
    struct checkpoint_write mine = *what;
    mine.dir = saver->dir;
    mine.gate = saver->options.gate;
    mine.cancelled = cancelled;
    mine.cancelled_arg = saver;
    int rc = checkpoint_write(&mine, err);
    if (!rc && !mine.gate && what->about->rank == 0)
        rc = checkpoint_prune(saver->dir, what->numbers->step, saver->options.keep, err);
    if (!rc && err)
        *err = (struct error){0};
    if (saver->options.report)
        saver->options.report(saver->options.report_arg, what->numbers->step, err);
    return rc;
}

static void *run_saver(void *arg)
{
    struct saver *saver = arg;
    (void)pthread_mutex_lock(&saver->lock);
    for (;;) {
        while (!saver->full && !saver->closing)
            (void)pthread_cond_wait(&saver->changed, &saver->lock);
        if (!saver->full)
            break;
        (void)pthread_mutex_unlock(&saver->lock);
        struct checkpoint_write what = {
            .tensors = saver->tensors,
            .n_tensors = saver->n_tensors,
            .numbers = &saver->numbers,
            .about = &saver->about,
        };
        struct error err = {0};
        (void)write_one(saver, &what, &err);
        (void)pthread_mutex_lock(&saver->lock);
        saver->result = err;
        saver->full = false;
        (void)pthread_cond_broadcast(&saver->changed);
    }
    (void)pthread_mutex_unlock(&saver->lock);
    return NULL;
}

int saver_new(const struct saver_options *options, struct saver **ret, struct error *err)
{
    struct saver *saver = calloc(1, sizeof(*saver));
    if (!saver)
        return error_set(err, WK_ENOMEM, "no memory for checkpoints");
    saver->options = *options;
    if (str_copy(saver->dir, sizeof(saver->dir), options->dir)) {
        free(saver);
        return error_set(err, WK_EINVAL, "checkpoint.dir is too long");
    }
    (void)pthread_mutex_init(&saver->lock, NULL);
    (void)pthread_cond_init(&saver->changed, NULL);
    if (pthread_create(&saver->thread, NULL, run_saver, saver)) {
        (void)pthread_cond_destroy(&saver->changed);
        (void)pthread_mutex_destroy(&saver->lock);
        free(saver);
        return error_set(err, WK_ENOMEM, "no thread for checkpoints");
    }
    *ret = saver;
    return 0;
}

void saver_free(struct saver *saver)
{
    if (!saver)
        return;
    (void)pthread_mutex_lock(&saver->lock);
    saver->closing = true;
    (void)pthread_cond_broadcast(&saver->changed);
    (void)pthread_mutex_unlock(&saver->lock);
    (void)pthread_join(saver->thread, NULL);
    (void)pthread_cond_destroy(&saver->changed);
    (void)pthread_mutex_destroy(&saver->lock);
    free(saver->tensors);
    free(saver->data);
    free(saver);
}

bool saver_busy(struct saver *saver)
{
    (void)pthread_mutex_lock(&saver->lock);
    bool busy = saver->full;
    (void)pthread_mutex_unlock(&saver->lock);
    return busy;
}

static int reserve(struct saver *saver, const struct checkpoint_write *what, size_t bytes)
{
    if (what->n_tensors > saver->tensors_capacity) {
        free(saver->tensors);
        saver->tensors_capacity = 0;
        saver->tensors = calloc((size_t)what->n_tensors, sizeof(*saver->tensors));
        if (!saver->tensors)
            return WK_ENOMEM;
        saver->tensors_capacity = what->n_tensors;
    }
    if (bytes > saver->data_capacity) {
        free(saver->data);
        saver->data_capacity = 0;
        saver->data = malloc(bytes);
        if (!saver->data)
            return WK_ENOMEM;
        saver->data_capacity = bytes;
    }
    return 0;
}

static int copy_tensors(struct saver *saver, const struct checkpoint_write *what, struct error *err)
{
    char *at = saver->data;
    int rc = 0;
    for (int i = 0; i < what->n_tensors && !rc; i++) {
        const struct checkpoint_tensor *tensor = &what->tensors[i];
        saver->tensors[i] = *tensor;
        saver->tensors[i].data = at;
        saver->tensors[i].queue = NULL;
        rc = reach_read(tensor->queue, at, tensor->data, tensor->bytes, err);
        at += tensor->bytes;
    }
    return rc;
}

int saver_take(struct saver *saver, const struct checkpoint_write *what, struct error *err)
{
    if (saver_busy(saver))
        return error_set(err, WK_ESTATE, "a checkpoint is still being written");
    size_t bytes = 0;
    for (int i = 0; i < what->n_tensors; i++)
        bytes += what->tensors[i].bytes;
    if (reserve(saver, what, bytes))
        return error_set(err, WK_ENOMEM, "no memory for a copy of %zu bytes", bytes);
    int rc = copy_tensors(saver, what, err);
    if (rc)
        return rc;
    saver->n_tensors = what->n_tensors;
    saver->numbers = *what->numbers;
    saver->about = *what->about;
    (void)str_copy(saver->strategy, sizeof(saver->strategy), what->about->strategy);
    saver->about.strategy = saver->strategy;
    atomic_store(&saver->cancelled, false);
    (void)pthread_mutex_lock(&saver->lock);
    saver->full = true;
    (void)pthread_cond_broadcast(&saver->changed);
    (void)pthread_mutex_unlock(&saver->lock);
    return 0;
}

int saver_wait(struct saver *saver, struct error *err)
{
    (void)pthread_mutex_lock(&saver->lock);
    while (saver->full)
        (void)pthread_cond_wait(&saver->changed, &saver->lock);
    struct error result = saver->result;
    (void)pthread_mutex_unlock(&saver->lock);
    if (result.code && err)
        *err = result;
    return result.code;
}

int saver_now(struct saver *saver, const struct checkpoint_write *what, struct error *err)
{
    struct error local = {0};
    (void)saver_wait(saver, NULL);
    atomic_store(&saver->cancelled, false);
    int rc = write_one(saver, what, &local);
    (void)pthread_mutex_lock(&saver->lock);
    saver->result = local;
    (void)pthread_mutex_unlock(&saver->lock);
    if (rc && err)
        *err = local;
    return rc;
}
