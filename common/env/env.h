/* The seams to the outside world: everything the control plane may ask of it, as vtables with a
 * real and a simulated implementation. An env is owned by main.c (real) or tests/sim (simulated),
 * and outlives its users. Every callback of an env runs on the loop thread of the calling program,
 * never inside the call that started the work. */
#ifndef ENV_ENV_H
#define ENV_ENV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/env/net.h"
#include "common/loop/clock.h"

struct rng_source {
    void *self;
    void (*fill)(void *self, void *ret_bytes, size_t count); /* cannot fail; real: getrandom */
};

/* Files of the control plane, relative paths refused. Real: disk_os. Every slot may block and is
 * called on the loop thread only for small files; large work uses loop_offload.
 */
struct disk {
    void *self;
    /* Whole file into a malloc'd, NUL-terminated buffer the caller frees; `max` bytes at most. */
    int (*read_file)(void *self, const char *path, size_t max, char **ret_data, size_t *ret_size,
                     struct error *err);
    /* Atomic replace: temporary name, fsync, rename, fsync of the folder. `mode` as chmod. */
    int (*write_file)(void *self, const char *path, const void *data, size_t size, int mode,
                      struct error *err);
    /* Append without sync; creates the file. */
    int (*append_file)(void *self, const char *path, const void *data, size_t size,
                       struct error *err);
    /* Up to `max` bytes from `offset`; at the end of the file *ret_size is 0. */
    int (*read_range)(void *self, const char *path, uint64_t offset, void *ret_data, size_t max,
                      size_t *ret_size, struct error *err);
    int (*make_dirs)(void *self, const char *path, int mode, struct error *err);
    int (*remove_tree)(void *self, const char *path, struct error *err); /* absent is success */
    /* Names in a folder, sorted, NULL-terminated, one allocation the caller frees. */
    int (*list)(void *self, const char *path, char ***ret_names, struct error *err);
    /* Free bytes of the file system of `path`. */
    int (*free_bytes)(void *self, const char *path, uint64_t *ret_bytes, struct error *err);
};

struct env {
    struct clock clock;
    struct rng_source rng;
    struct net net;
    struct disk disk;
};

struct loop;

/* The real world on `loop`. env_fini waits for nothing: NNG sockets live as long as the process. */
int env_os_init(struct env *env, struct loop *loop, struct error *err);
void env_os_fini(struct env *env);
/* The same with a network that reaches only this machine (net_os.h). */
int env_local_init(struct env *env, struct loop *loop, struct error *err);
void env_local_fini(struct env *env);

#endif
