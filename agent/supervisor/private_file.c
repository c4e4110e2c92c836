#include "agent/supervisor/private_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/str.h"

enum { PRIVATE_MODE = 0400, FOLDER_MODE = 0700 };

struct private_file {
    int folder; /* AT_FDCWD: `name` is absolute */
    const char *name, *text;
    const struct launch_user *user; /* NULL = the agent's */
};

static int write_one(const struct private_file *file, struct error *err)
{
    size_t size = strlen(file->text);
    (void)unlinkat(file->folder, file->name, 0);
    int fd = openat(file->folder, file->name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                    PRIVATE_MODE);
    if (fd < 0)
        return error_errno(err, errno, "%s", file->name);
    ssize_t written = write(fd, file->text, size);
    int problem = written == (ssize_t)size ? 0 : written < 0 ? errno : ENOSPC;
    if (!problem &&
        (fchmod(fd, PRIVATE_MODE) || (file->user && fchown(fd, file->user->uid, file->user->gid))))
        problem = errno;
    close(fd);
    return problem ? error_errno(err, problem, "%s", file->name) : 0;
}

static int write_secrets(const struct run_launch *how, struct error *err)
{
    const struct launch *launch = &how->launch;
    const struct launch_user *user = launch->user;
    if (mkdir(how->secrets, FOLDER_MODE) && errno != EEXIST)
        return error_errno(err, errno, "folder %s", how->secrets);
    int rc = 0, fd = open(how->secrets, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return error_errno(err, errno, "folder %s", how->secrets);
    for (int i = 0; i < launch->secrets_count && !rc; i++) {
        struct private_file file = {fd, launch->secrets[i].name, launch->secrets[i].value, user};
        rc = write_one(&file, err);
    }
    if (!rc && (fchmod(fd, FOLDER_MODE) || (user && fchown(fd, user->uid, user->gid))))
        rc = error_errno(err, errno, "folder %s", how->secrets);
    close(fd);
    return rc;
}

int private_files_write(const struct run_launch *how, struct error *err)
{
    struct private_file token = {AT_FDCWD, how->token, how->launch.token, how->launch.user};
    int rc = how->token && how->token[0] ? write_one(&token, err) : 0;
    return !rc && how->secrets && how->secrets[0] ? write_secrets(how, err) : rc;
}

int private_secrets_read(struct run_launch *run, const struct disk *disk, struct arena *arena,
                         struct error *err)
{
    struct launch_secret *secrets = (struct launch_secret *)(uintptr_t)run->launch.secrets;
    for (int i = 0; i < run->launch.secrets_count; i++) {
        char path[2 * RUNDIR_PATH_MAX], *text;
        size_t size;
        int rc = str_printf(path, sizeof(path), "%s/%s", run->secrets, secrets[i].name);
        if (!rc)
            rc = disk->read_file(disk->self, path, PRIVATE_SECRET_MAX_BYTES, &text, &size, err);
        if (rc)
            return error_wrap(err, "secret for %s", secrets[i].name);
        secrets[i].value = arena_strndup(arena, text, size);
        explicit_bzero(text, size);
        free(text);
        if (!secrets[i].value)
            return error_set(err, E_RESOURCE_EXHAUSTED, "no memory for secrets");
    }
    return 0;
}

void private_secrets_forget(struct run_launch *run)
{
    int fd = run->secrets && run->secrets[0]
                 ? open(run->secrets, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                 : -1;
    for (int i = 0; i < run->launch.secrets_count; i++) {
        char *value = (char *)(uintptr_t)run->launch.secrets[i].value;
        if (value)
            explicit_bzero(value, strlen(value));
        if (fd >= 0)
            (void)unlinkat(fd, run->launch.secrets[i].name, 0);
    }
    if (fd < 0)
        return;
    close(fd);
    (void)rmdir(run->secrets);
}
