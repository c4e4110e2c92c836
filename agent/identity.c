#include "agent/identity.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/str.h"
#include "common/env/disk_os.h"
#include "common/env/tls_key.h"
#include "common/env/tls_read.h"

enum { PIN_FILE_MAX_BYTES = 128, PRIVATE = 0600 };

static int read_key(const char *dir, const char *name, struct identity *ret, struct error *err)
{
    struct tls_facts facts;
    if (str_printf(ret->key, sizeof(ret->key), "%s/node.pem", dir))
        return error_set(err, E_INVALID_ARGUMENT, "the path is too long: %.60s...", dir);
    if (access(ret->key, F_OK) != 0)
        return tls_make_node_key(ret->key, name, err);
    int rc = tls_read_facts(ret->key, &facts, err);
    if (rc)
        error_hint(err,
                   "restore it from a backup; or remove it, and let an administrator or operator "
                   "run `muster rekey %s`",
                   name);
    return rc;
}

static int read_pin(const char *path, struct identity *ret)
{
    struct disk disk = disk_os();
    char *data;
    size_t size;
    int rc = disk.read_file(disk.self, path, PIN_FILE_MAX_BYTES, &data, &size, NULL);
    if (rc)
        return rc;
    data[strcspn(data, "\r\n")] = '\0';
    rc = str_copy(ret->pin, sizeof(ret->pin), data);
    free(data);
    return rc;
}

static int keep_pin(const char *path, const char *pin, struct error *err)
{
    struct identity known = {0};
    struct disk disk = disk_os();
    char line[TOKEN_PIN_LENGTH + 2];
    if (!read_pin(path, &known) && strcmp(known.pin, pin) == 0)
        return 0;
    (void)str_printf(line, sizeof(line), "%s\n", pin);
    return disk.write_file(disk.self, path, line, strlen(line), PRIVATE, err);
}

static int no_pin(const char *token, struct error *err)
{
    if (token[0]) {
        error_set(err, E_UNAUTHENTICATED,
                  "the token does not name its coordinator: it has no dot with a key after it");
        error_hint(err, "take the whole token from the coordinator's DATA/agent.token");
    } else {
        error_set(err, E_UNAUTHENTICATED, "no token of role agent was given");
        error_hint(err, "--token-file FILE (the coordinator's DATA/agent.token)");
    }
    return E_UNAUTHENTICATED;
}

static int choose_pin(const char *dir, const char *token, struct identity *ret, struct error *err)
{
    char path[NET_KEY_PATH_MAX];
    const char *pin = token_pin(token);
    int rc = str_printf(path, sizeof(path), "%s/cluster.pin", dir);
    if (rc)
        return error_set(err, E_INVALID_ARGUMENT, "the path is too long: %.60s...", dir);
    if (!pin)
        return read_pin(path, ret) ? no_pin(token, err) : 0;
    rc = tls_check_pin(pin, err);
    if (rc)
        return error_wrap(err, "the token");
    (void)str_copy(ret->pin, sizeof(ret->pin), pin);
    return keep_pin(path, pin, err);
}

int identity_open(const char *dir, const char *name, const char *token, struct identity *ret,
                  struct error *err)
{
    *ret = (struct identity){0};
    int rc = str_copy(ret->token, sizeof(ret->token), token);
    if (rc)
        return error_set(err, E_INVALID_ARGUMENT, "the token is too long");
    rc = choose_pin(dir, token, ret, err);
    if (rc)
        return rc;
    return read_key(dir, name, ret, err);
}

/* A reader of the file can register nodes, also a job on this node. Pipes and similar files have no
 * other readers. */
static int check_mode(FILE *file, const char *path, struct error *err)
{
    struct stat status;
    if (fstat(fileno(file), &status) < 0 || !S_ISREG(status.st_mode) || !(status.st_mode & 077))
        return 0;
    error_set(err, E_PERMISSION_DENIED, "token file %s is open to others than its owner", path);
    error_hint(err, "chmod 600 %s, and revoke the token if others may have read it", path);
    return E_PERMISSION_DENIED;
}

static int read_first_line(const char *path, char ret[IDENTITY_TOKEN_MAX], struct error *err)
{
    FILE *file = fopen(path, "re");
    if (file && check_mode(file, path, err)) {
        fclose(file);
        return E_PERMISSION_DENIED;
    }
    bool read = file && fgets(ret, IDENTITY_TOKEN_MAX, file);
    int problem = errno;
    if (file)
        fclose(file);
    if (!read)
        return error_errno(err, file ? EIO : problem, "token file %s", path);
    ret[strcspn(ret, " \t\r\n")] = '\0';
    return 0;
}

int identity_read_token(const char *token, const char *path, char ret[IDENTITY_TOKEN_MAX],
                        struct error *err)
{
    ret[0] = '\0';
    if (!token && path)
        return read_first_line(path, ret, err);
    token = token ? token : getenv("MUSTER_TOKEN");
    if (token && str_copy(ret, IDENTITY_TOKEN_MAX, token))
        return error_set(err, E_INVALID_ARGUMENT, "the token is too long");
    return 0;
}
