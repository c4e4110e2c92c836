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

    /* The caller's: copies that have begun, and where they go. */
    bool copying;
    struct event copied;
    struct queue *copies; /* of `device`; NULL: none yet */
    struct device *device;
    char *pinned;
    size_t pinned_bytes;

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

static void copies_fini(struct saver *saver)
{
    if (saver->pinned)
        device_pinned_free(saver->device, saver->pinned, saver->pinned_bytes);
    queue_free(saver->copies);
    saver->copies = NULL;
    saver->pinned = NULL;
    saver->pinned_bytes = 0;
}

void saver_free(struct saver *saver)
{
    if (!saver)
        return;
    saver_copied(saver);
    (void)pthread_mutex_lock(&saver->lock);
    saver->closing = true;
    (void)pthread_cond_broadcast(&saver->changed);
    (void)pthread_mutex_unlock(&saver->lock);
    (void)pthread_join(saver->thread, NULL);
    (void)pthread_cond_destroy(&saver->changed);
    (void)pthread_mutex_destroy(&saver->lock);
    copies_fini(saver);
    free(saver->tensors);
    free(saver->data);
    free(saver);
}

bool saver_busy(struct saver *saver)
{
    (void)pthread_mutex_lock(&saver->lock);
    bool busy = saver->full || saver->copying;
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

/* The host cannot read it, so it is copied by the saver's queue. */
static bool is_closed(const struct checkpoint_tensor *tensor)
{
    return tensor->bytes && !reach_is_direct(tensor->queue);
}

static size_t count_bytes(const struct checkpoint_write *what, bool closed)
{
    size_t bytes = 0;
    for (int i = 0; i < what->n_tensors; i++)
        bytes += is_closed(&what->tensors[i]) == closed ? what->tensors[i].bytes : 0;
    return bytes;
}

/* A queue and pinned memory for copies of this many bytes from this device. */
static int reserve_copies(struct saver *saver, struct device *device, size_t bytes)
{
    void *pinned = NULL;
    if (saver->device != device)
        copies_fini(saver);
    saver->device = device;
    int rc = saver->copies ? 0 : queue_new(device, &saver->copies, NULL);
    if (rc || bytes <= saver->pinned_bytes)
        return rc;
    if (saver->pinned)
        device_pinned_free(device, saver->pinned, saver->pinned_bytes);
    saver->pinned = NULL;
    saver->pinned_bytes = 0;
    rc = device_pinned_new(device, bytes, &pinned, NULL);
    if (rc)
        return rc;
    saver->pinned = pinned;
    saver->pinned_bytes = bytes;
    return 0;
}

static int reserve_for(struct saver *saver, const struct checkpoint_write *what)
{
    struct device *device = NULL;
    for (int i = 0; i < what->n_tensors; i++)
        device = is_closed(&what->tensors[i]) ? queue_device(what->tensors[i].queue) : device;
    int rc = reserve(saver, what, count_bytes(what, false));
    return rc || !device ? rc : reserve_copies(saver, device, count_bytes(what, true));
}

/* Copy what the host reads; enqueue the copies of the rest, each after what its queue has now. */
static int copy_tensors(struct saver *saver, const struct checkpoint_write *what, struct error *err)
{
    char *at = saver->data, *pinned = saver->pinned;
    const struct queue *follows = NULL;
    int rc = 0;
    for (int i = 0; i < what->n_tensors && !rc; i++) {
        const struct checkpoint_tensor *tensor = &what->tensors[i];
        char **to = is_closed(tensor) ? &pinned : &at;
        saver->tensors[i] = *tensor;
        saver->tensors[i].data = *to;
        saver->tensors[i].queue = NULL;
        if (!is_closed(tensor)) {
            rc = reach_read(tensor->queue, *to, tensor->data, tensor->bytes, err);
        } else {
            if (tensor->queue != follows)
                queue_wait(saver->copies, event_record(tensor->queue));
            follows = tensor->queue;
            queue_fetch(saver->copies, *to, tensor->data, tensor->bytes);
        }
        *to += tensor->bytes;
    }
    saver->copying = follows != NULL;
    if (saver->copying)
        saver->copied = event_record(saver->copies);
    return rc;
}

static void hand_over(struct saver *saver)
{
    (void)pthread_mutex_lock(&saver->lock);
    saver->full = true;
    (void)pthread_cond_broadcast(&saver->changed);
    (void)pthread_mutex_unlock(&saver->lock);
}

void saver_hold(struct saver *saver, struct queue *queue)
{
    if (saver->copying && queue && queue_device(queue) == saver->device)
        queue_wait(queue, saver->copied);
}

void saver_copied(struct saver *saver)
{
    struct error err = {0};
    if (!saver->copying)
        return;
    int rc = event_wait(saver->copied, &err);
    saver->copying = false;
    if (!rc) {
        hand_over(saver);
        return;
    }
    (void)error_wrap(&err, "the copy of a checkpoint's state");
    (void)pthread_mutex_lock(&saver->lock);
    saver->result = err;
    (void)pthread_mutex_unlock(&saver->lock);
    if (saver->options.report)
        saver->options.report(saver->options.report_arg, saver->numbers.step, &err);
}

int saver_take(struct saver *saver, const struct checkpoint_write *what, struct error *err)
{
    if (saver_busy(saver))
        return error_set(err, WK_ESTATE, "a checkpoint is still being written");
    if (reserve_for(saver, what))
        return error_set(err, WK_ENOMEM, "no memory for a copy of %zu bytes",
                         count_bytes(what, false) + count_bytes(what, true));
    int rc = copy_tensors(saver, what, err);
    if (rc && saver->copying)
        (void)event_wait(saver->copied, NULL);
    saver->copying = saver->copying && !rc;
    if (rc)
        return rc;
    saver->n_tensors = what->n_tensors;
    saver->numbers = *what->numbers;
    saver->about = *what->about;
    (void)str_copy(saver->strategy, sizeof(saver->strategy), what->about->strategy);
    saver->about.strategy = saver->strategy;
    atomic_store(&saver->cancelled, false);
    if (!saver->copying)
        hand_over(saver);
    return 0;
}

int saver_wait(struct saver *saver, struct error *err)
{
    saver_copied(saver);
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
