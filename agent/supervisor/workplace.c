#include "agent/supervisor/workplace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/str.h"

enum { WORK_MODE = 0711, TMP_MODE = 0700, JOB_TMP_MODE = 01777 };

static const char *const suffixes[] = {".token", ".secrets"};
enum { TOKEN, SECRETS, SUFFIXES };

int workplace_init(struct workplace *place, const char *work, const char *tmp)
{
    int rc = str_copy(place->work, sizeof(place->work), work);
    if (rc)
        return rc;
    return str_copy(place->tmp, sizeof(place->tmp), tmp);
}

/* Workers of every user pass through the first, and list it not; root binds what is in the other.
 */
int workplace_make(const struct workplace *place, struct error *err)
{
    const struct disk *disk = place->disk;
    int rc = disk->make_dirs(disk->self, place->work, WORK_MODE, err);
    if (rc)
        return rc;
    return disk->make_dirs(disk->self, place->tmp, TMP_MODE, err);
}

static int join(char ret[RUNDIR_PATH_MAX], const char *folder, const char *name, struct error *err)
{
    if (str_printf(ret, RUNDIR_PATH_MAX, "%s/%s", folder, name))
        return error_set(err, E_OUT_OF_RANGE, "path is too long: %s/%s", folder, name);
    return 0;
}

int workplace_work(const struct workplace *place, const struct worker_key *key,
                   char ret[RUNDIR_PATH_MAX], struct error *err)
{
    char name[RUNDIR_PATH_MAX];
    int rc = rundir_name(key, name, err);
    if (rc)
        return rc;
    return join(ret, place->work, name, err);
}

static int add_variable(struct launch *launch, const char *name, const char *value,
                        struct arena *arena, struct error *err)
{
    size_t count = 0;
    while (launch->envp[count])
        count++;
    const char **envp = arena_array(arena, count + 2, sizeof(*envp));
    if (envp) {
        memcpy(envp, launch->envp, count * sizeof(*envp));
        envp[count] = arena_printf(arena, "%s=%s", name, value);
    }
    if (!envp || !envp[count])
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory for a worker's environment");
    launch->envp = envp;
    return 0;
}

static int private_path(const struct run_launch *record, int which, struct arena *arena,
                        const char **ret, struct error *err)
{
    if (strlen(record->work) + strlen(suffixes[which]) >= RUNDIR_PATH_MAX)
        return error_set(err, E_OUT_OF_RANGE, "path is too long: %s", record->work);
    *ret = arena_printf(arena, "%s%s", record->work, suffixes[which]);
    return *ret ? 0 : error_set(err, E_RESOURCE_EXHAUSTED, "no memory for a path");
}

int workplace_private(struct run_launch *record, struct arena *arena, struct error *err)
{
    struct launch *launch = &record->launch;
    int rc = 0;
    if (launch->token && launch->token[0]) {
        rc = private_path(record, TOKEN, arena, &record->token, err);
        if (!rc)
            rc = add_variable(launch, "MUSTER_WORKER_TOKEN_FILE", record->token, arena, err);
    }
    if (!rc && launch->secrets_count) {
        rc = private_path(record, SECRETS, arena, &record->secrets, err);
        if (!rc)
            rc = add_variable(launch, "MUSTER_SECRETS", record->secrets, arena, err);
    }
    return rc;
}

/* Only root can write to the folder above. */
int workplace_tmp(const struct workplace *place, const char *job, char ret[RUNDIR_PATH_MAX],
                  struct error *err)
{
    int rc = join(ret, place->tmp, job, err);
    if (!rc && ((mkdir(ret, JOB_TMP_MODE) && errno != EEXIST) || chmod(ret, JOB_TMP_MODE)))
        rc = error_errno(err, errno, "folder %s", ret);
    return rc;
}

struct removal { /* its own memory: the launcher may end before it is done */
    struct disk disk;
    char path[RUNDIR_PATH_MAX];
};

static void remove_now(void *arg)
{
    struct removal *removal = arg;
    (void)removal->disk.remove_tree(removal->disk.self, removal->path, NULL);
    free(removal);
}

static void removed(void *arg)
{
    (void)arg;
}

void workplace_remove(struct workplace *place, const char *path)
{
    char name[64];
    struct removal *removal = malloc(sizeof(*removal));
    (void)str_printf(name, sizeof(name), ".removed.%d.%u", (int)getpid(), place->removed++);
    if (removal && !join(removal->path, place->tmp, name, NULL) &&
        rename(path, removal->path) == 0) {
        removal->disk = *place->disk;
        loop_offload(place->loop, remove_now, removed, removal);
        return;
    }
    free(removal);
    if (errno != ENOENT)
        (void)place->disk->remove_tree(place->disk->self, path, NULL);
}

static void remove_in(struct workplace *place, const char *folder, const char *name)
{
    char path[RUNDIR_PATH_MAX];
    if (!join(path, folder, name, NULL))
        workplace_remove(place, path);
}

void workplace_remove_worker(struct workplace *place, const struct worker_key *key)
{
    char name[RUNDIR_PATH_MAX], private[RUNDIR_PATH_MAX + 16];
    if (rundir_name(key, name, NULL))
        return;
    remove_in(place, place->work, name);
    for (int i = 0; i < SUFFIXES; i++) {
        (void)str_printf(private, sizeof(private), "%s%s", name, suffixes[i]);
        remove_in(place, place->work, private);
    }
}

void workplace_remove_job(struct workplace *place, const char *job)
{
    remove_in(place, place->tmp, job);
}

static bool is_known_work(const char *name,
                          bool (*known)(void *arg, const struct worker_key *key, bool whole_job),
                          void *arg)
{
    char plain[RUNDIR_PATH_MAX];
    struct worker_key key;
    if (str_copy(plain, sizeof(plain), name))
        return false;
    for (int i = 0; i < SUFFIXES; i++)
        if (str_ends(plain, suffixes[i]))
            plain[strlen(plain) - strlen(suffixes[i])] = '\0';
    return !rundir_parse_name(plain, &key) && known(arg, &key, false);
}

void workplace_sweep(struct workplace *place,
                     bool (*known)(void *arg, const struct worker_key *key, bool whole_job),
                     void *arg)
{
    const struct disk *disk = place->disk;
    char **names;
    if (disk->list(disk->self, place->work, &names, NULL) == 0) {
        for (char **name = names; *name; name++)
            if (!is_known_work(*name, known, arg))
                remove_in(place, place->work, *name);
        free(names);
    }
    if (disk->list(disk->self, place->tmp, &names, NULL) == 0) {
        for (char **name = names; *name; name++) {
            struct worker_key key = {0};
            if (str_copy(key.job, sizeof(key.job), *name) || !known(arg, &key, true))
                remove_in(place, place->tmp, *name);
        }
        free(names);
    }
}
