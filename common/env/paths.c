#include "common/env/paths.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/str.h"

static int too_long(struct error *err, const char *what)
{
    return error_set(err, E_OUT_OF_RANGE, "the path of %s is too long", what);
}

static const char *absolute_variable(const char *name)
{
    const char *value = getenv(name);
    return value && value[0] == '/' ? value : NULL;
}

static int under_home(char *ret, size_t size, const char *variable, const char *fallback,
                      struct error *err)
{
    const char *base = absolute_variable(variable);
    if (base)
        return str_printf(ret, size, "%s/muster", base) ? too_long(err, variable) : 0;
    const char *home = absolute_variable("HOME");
    if (!home)
        return error_set(err, E_NOT_FOUND, "neither %s nor HOME is an absolute path", variable);
    return str_printf(ret, size, "%s/%s/muster", home, fallback) ? too_long(err, "HOME") : 0;
}

int paths_config_dir(char *ret, size_t size, struct error *err)
{
    return under_home(ret, size, "XDG_CONFIG_HOME", ".config", err);
}

int paths_data_dir(char *ret, size_t size, struct error *err)
{
    return under_home(ret, size, "XDG_DATA_HOME", ".local/share", err);
}

int paths_runtime_dir(char *ret, size_t size, struct error *err)
{
    const char *base = absolute_variable("XDG_RUNTIME_DIR");
    int rc = base ? str_printf(ret, size, "%s/muster", base)
                  : str_printf(ret, size, "/tmp/muster-%u", (unsigned)getuid());
    if (rc)
        return too_long(err, "XDG_RUNTIME_DIR");
    return 0;
}

static bool is_trusted(uid_t owner)
{
    return owner == 0 || owner == geteuid();
}

int paths_check_folder(const char *path, struct error *err)
{
    struct stat link, folder;
    if (lstat(path, &link) || stat(path, &folder))
        return error_errno(err, errno, "folder %s", path);
    uid_t owner = is_trusted(link.st_uid) ? folder.st_uid : link.st_uid;
    if (!S_ISDIR(folder.st_mode))
        return error_set(err, E_FAILED_PRECONDITION, "%s is no folder", path);
    if (!is_trusted(owner))
        error_set(err, E_FAILED_PRECONDITION,
                  "folder %s belongs to uid %u, who could exchange what is in it", path,
                  (unsigned)owner);
    else if (folder.st_mode & S_IWOTH)
        error_set(err, E_FAILED_PRECONDITION, "any user may write in folder %s", path);
    else
        return 0;
    error_hint(err, "name one that is yours: keys and tokens are kept there");
    return E_FAILED_PRECONDITION;
}

int paths_join(char *ret, size_t size, const char *dir, const char *name, struct error *err)
{
    const char *slash = str_ends(dir, "/") ? "" : "/";
    return str_printf(ret, size, "%s%s%s", dir, slash, name) ? too_long(err, name) : 0;
}

int paths_absolute(char *ret, size_t size, const char *path, struct error *err)
{
    if (path[0] == '/')
        return str_copy(ret, size, path) ? too_long(err, path) : 0;
    char *here = getcwd(NULL, 0);
    if (!here)
        return error_errno(err, errno, "the working directory");
    int rc = paths_join(ret, size, here, path, err);
    free(here);
    return rc;
}
