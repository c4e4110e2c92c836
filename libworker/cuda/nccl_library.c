#include "libworker/cuda/nccl_library.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <worker/error.h>

struct nccl_library {
    char *name;
    pid_t starter; /* of the thread, while `loads` */
    bool begun, loads, ready;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done; /* under the lock; until then the thread writes the rest */
    struct nccl_api api;
    int rc;
    struct error why;
};

static bool is_forked(const struct nccl_library *library)
{
    return library->loads && getpid() != library->starter;
}

static void await(struct nccl_library *library)
{
    pthread_mutex_lock(&library->lock);
    while (!library->done)
        (void)pthread_cond_wait(&library->changed, &library->lock);
    pthread_mutex_unlock(&library->lock);
    library->loads = false;
}

static void close_library(struct cuda_device *device)
{
    struct nccl_library *library = device->nccl;
    if (library->loads && !is_forked(library))
        await(library);
    if (!is_forked(library)) {
        (void)pthread_cond_destroy(&library->changed);
        (void)pthread_mutex_destroy(&library->lock);
    }
    free(library->name);
    free(library);
    device->nccl = NULL;
}

/* The environment is read here: the program may change it while the thread runs. */
static struct nccl_library *library_of(struct cuda_device *device)
{
    struct nccl_library *library = device->nccl;
    if (library)
        return library;
    library = calloc(1, sizeof(*library));
    char *name = strdup(nccl_api_name());
    if (!library || !name) {
        free(library);
        free(name);
        return NULL;
    }
    library->name = name;
    (void)pthread_mutex_init(&library->lock, NULL);
    (void)pthread_cond_init(&library->changed, NULL);
    device->nccl = library;
    device->nccl_close = close_library;
    return library;
}

static void load(struct nccl_library *library)
{
    library->rc = nccl_api_open(library->name, &library->api, &library->why);
}

static void *run_thread(void *arg)
{
    struct nccl_library *library = arg;
    load(library);
    pthread_mutex_lock(&library->lock);
    library->done = true;
    (void)pthread_cond_signal(&library->changed);
    pthread_mutex_unlock(&library->lock);
    return NULL;
}

/* Detached: a program may end without closing its device. The program's signals must not be
 * handled on it. */
static bool start_thread(struct nccl_library *library)
{
    sigset_t all, old;
    pthread_attr_t detached;
    pthread_t thread;
    sigfillset(&all);
    (void)pthread_attr_init(&detached);
    (void)pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(&thread, &detached, run_thread, library);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    (void)pthread_attr_destroy(&detached);
    return !rc;
}

void nccl_library_begin(struct cuda_device *device)
{
    struct nccl_library *library = library_of(device);
    if (!library || library->loads || library->ready)
        return;
    library->begun = true;
    library->starter = getpid();
    library->loads = start_thread(library);
}

bool nccl_library_begun(const struct cuda_device *device)
{
    return device->nccl && device->nccl->begun;
}

int nccl_library_open(struct cuda_device *device, struct nccl_api *ret, struct error *err)
{
    struct nccl_library *library = library_of(device);
    if (!library)
        return error_set(err, WK_ENOMEM, "no memory for NCCL's library");
    if (is_forked(library))
        return error_set(err, WK_EUNAVAILABLE,
                         "no NCCL in a process that was forked while it was opened: start the "
                         "process by exec");
    if (library->loads)
        await(library);
    else if (!library->ready)
        load(library);
    library->ready = true;
    if (!library->rc)
        *ret = library->api;
    else if (err)
        *err = library->why;
    return library->rc;
}
