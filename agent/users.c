#include "agent/users.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/parse.h"
#include "common/base/sha256.h"
#include "common/base/str.h"

enum { PATH_BYTES = 512, UID_TEXT_BYTES = 16, UID_MAX = 0xfffffff0 };

struct users_row {
    const char *tenant, *user; /* "*" as in users.h */
};
struct users_uid {
    const char *tenant;
    uid_t uid;
};

/* Users of the system */

/* getgrouplist also lists its primary group, which the kernel accepts. */
static void read_groups(const struct passwd *entry, struct launch_user *user)
{
    user->groups_count = AGENT_GROUPS_MAX;
    if (getgrouplist(entry->pw_name, entry->pw_gid, user->groups, &user->groups_count) < 0)
        user->groups_count = AGENT_GROUPS_MAX; /* the first of them */
}

static int read_user(const char *name, struct arena *arena, struct launch_user **ret,
                     struct error *err)
{
    const struct passwd *entry = getpwnam(name);
    struct launch_user *user = arena_alloc(arena, sizeof(*user));
    if (!entry)
        return error_set(err, E_NOT_FOUND, "there is no user %s on this node", name);
    if (!user)
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory for user %s", name);
    *user = (struct launch_user){.uid = entry->pw_uid,
                                 .gid = entry->pw_gid,
                                 .name = arena_strdup(arena, entry->pw_name),
                                 .home = arena_strdup(arena, entry->pw_dir),
                                 .shell = arena_strdup(arena, entry->pw_shell)};
    read_groups(entry, user);
    if (!user->name || !user->home || !user->shell)
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory for user %s", name);
    *ret = user;
    return 0;
}

/* The file of users */

static int read_row(struct users *users, struct str line, int number, struct error *err)
{
    struct str tenant, user, more;
    line = str_trim(line);
    if (!line.size || line.data[0] == '#')
        return 0;
    bool fine = str_next(&line, ' ', &tenant);
    line = str_trim(line);
    fine = fine && str_next(&line, ' ', &user) && user.size && !str_next(&line, ' ', &more);
    if (!fine)
        return error_set(err, E_INVALID_ARGUMENT, "line %d: expected TENANT USER", number);
    if (users->rows_count == USERS_TENANTS_MAX)
        return error_set(err, E_OUT_OF_RANGE, "more than %d tenants", USERS_TENANTS_MAX);
    struct users_row *row = &users->rows[users->rows_count++];
    row->tenant = arena_strndup(&users->arena, tenant.data, tenant.size);
    row->user = arena_strndup(&users->arena, user.data, user.size);
    return row->tenant && row->user ? 0 : error_set(err, E_RESOURCE_EXHAUSTED, "no memory");
}

static int read_table(struct users *users, const char *path, struct error *err)
{
    char *text;
    size_t size;
    struct str rest, line;
    int number = 1;
    users->rows = arena_array(&users->arena, USERS_TENANTS_MAX, sizeof(*users->rows));
    if (!users->rows)
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory for the users of tenants");
    int rc =
        users->disk->read_file(users->disk->self, path, USERS_FILE_MAX_BYTES, &text, &size, err);
    if (rc)
        return rc;
    for (char *c = text; *c; c++)
        if (*c == '\t' || *c == '\r')
            *c = ' ';
    for (rest = str_of(text); !rc && str_next(&rest, '\n', &line); number++)
        rc = read_row(users, line, number, err);
    free(text);
    if (rc)
        return error_wrap(err, "%s", path);
    return 0;
}

/* NULL: the file does not name it. */
static const char *user_in_table(const struct users *users, const char *tenant)
{
    for (int any = 0; any < 2; any++)
        for (int i = 0; i < users->rows_count; i++)
            if (strcmp(users->rows[i].tenant, any ? "*" : tenant) == 0)
                return users->rows[i].user;
    return NULL;
}

static int find_named(const char *name, const char *tenant, struct arena *arena,
                      const struct launch_user **ret, struct error *err)
{
    struct launch_user *user;
    bool own_name = strcmp(name, "*") == 0;
    int rc = read_user(own_name ? tenant : name, arena, &user, err);
    if (rc)
        return rc;
    if (user->uid == 0)
        return error_set(err, E_PERMISSION_DENIED, "tenant %s would run as root", tenant);
    if (own_name && user->uid <= USERS_SYSTEM_UID_MAX)
        return error_set(err, E_PERMISSION_DENIED,
                         "tenant %s has the name of one of the system's users (uid %u)", tenant,
                         (unsigned)user->uid);
    *ret = user;
    return 0;
}

/* The range of uids */

static int read_range(struct users *users, const char *text, struct error *err)
{
    char first[UID_TEXT_BYTES];
    int64_t low, high;
    const char *dash = strchr(text, '-');
    if (!dash || str_printf(first, sizeof(first), "%.*s", (int)(dash - text), text) ||
        parse_i64(first, USERS_UID_MIN, UID_MAX, &low, NULL) ||
        parse_i64(dash + 1, USERS_UID_MIN, UID_MAX, &high, NULL) || low > high)
        return error_set(err, E_INVALID_ARGUMENT,
                         "--worker-uids %s: expected FIRST-LAST, %d at least", text, USERS_UID_MIN);
    users->first = (uid_t)low;
    users->last = (uid_t)high;
    return 0;
}

static int remember_uid(struct users *users, const char *tenant, uid_t uid)
{
    const char *copy = arena_strdup(&users->arena, tenant);
    if (!copy || users->given_count == USERS_TENANTS_MAX)
        return E_RESOURCE_EXHAUSTED;
    users->given[users->given_count++] = (struct users_uid){copy, uid};
    return 0;
}

/* A line per tenant: its name, its uid. Reading stops at an invalid line, because a uid given twice
 * would be worse than a missing one. */
static int read_given(struct users *users, struct error *err)
{
    char path[PATH_BYTES], number[UID_TEXT_BYTES], *text;
    size_t size;
    struct str rest, line, tenant;
    int64_t uid;
    users->given = arena_array(&users->arena, USERS_TENANTS_MAX, sizeof(*users->given));
    if (!users->given || str_printf(path, sizeof(path), "%s/uids", users->dir))
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory for the uids of tenants");
    int rc =
        users->disk->read_file(users->disk->self, path, USERS_FILE_MAX_BYTES, &text, &size, err);
    if (rc == E_NOT_FOUND) {
        *err = (struct error){0};
        return 0;
    }
    if (rc)
        return rc;
    for (rest = str_of(text); !rc && str_next(&rest, '\n', &line);) {
        char name[PATH_BYTES];
        if (!line.size)
            continue;
        if (!str_next(&line, ' ', &tenant) || !tenant.size ||
            str_printf(name, sizeof(name), "%.*s", (int)tenant.size, tenant.data) ||
            str_printf(number, sizeof(number), "%.*s", (int)line.size, line.data) ||
            parse_i64(number, USERS_UID_MIN, UID_MAX, &uid, NULL))
            rc = error_set(err, E_DATA_LOSS, "%s is not what an agent wrote", path);
        else if (remember_uid(users, name, (uid_t)uid))
            rc = error_set(err, E_RESOURCE_EXHAUSTED, "%s names too many tenants", path);
    }
    free(text);
    return rc;
}

static int write_given(const struct users *users, struct error *err)
{
    char path[PATH_BYTES];
    struct buf text = {0};
    for (int i = 0; i < users->given_count; i++)
        buf_printf(&text, "%s %u\n", users->given[i].tenant, (unsigned)users->given[i].uid);
    buf_str(&text, "");
    int rc = str_printf(path, sizeof(path), "%s/uids", users->dir);
    if (!rc)
        rc =
            users->disk->write_file(users->disk->self, path, buf_cstr(&text), text.size, 0600, err);
    buf_fini(&text);
    return rc;
}

static bool is_given(const struct users *users, uid_t uid)
{
    for (int i = 0; i < users->given_count; i++)
        if (users->given[i].uid == uid)
            return true;
    return false;
}

static bool is_the_systems(uid_t uid)
{
    return getpwuid(uid) || getgrgid(uid);
}

/* Derived from the name, so that nodes with the same range usually agree: on shared folders a uid
 * should belong to one tenant. If the name's uid is in use, the next free one. */
static int give_uid(struct users *users, const char *tenant, uid_t *ret, struct error *err)
{
    uint8_t digest[SHA256_BYTES];
    uint64_t size = (uint64_t)users->last - users->first + 1, at = 0;
    sha256(tenant, strlen(tenant), digest);
    for (int i = 0; i < 8; i++)
        at = at << 8 | digest[i];
    for (uint64_t i = 0; i < size && i <= USERS_TENANTS_MAX; i++) {
        uid_t uid = users->first + (uid_t)((at + i) % size);
        if (is_given(users, uid) || is_the_systems(uid))
            continue;
        if (remember_uid(users, tenant, uid))
            return error_set(err, E_RESOURCE_EXHAUSTED, "no room to remember the uid of %s",
                             tenant);
        int rc = write_given(users, err);
        if (rc)
            users->given_count--;
        else
            *ret = uid;
        return rc;
    }
    return error_set(err, E_RESOURCE_EXHAUSTED,
                     "no uid of %u-%u is left for tenant %s on this node", (unsigned)users->first,
                     (unsigned)users->last, tenant);
}

static int make_folder(const char *path, mode_t mode, uid_t owner, struct error *err)
{
    struct stat status;
    if (mkdir(path, mode) == 0)
        return lchown(path, owner, owner) ? error_errno(err, errno, "folder %s", path) : 0;
    if (errno != EEXIST)
        return error_errno(err, errno, "folder %s", path);
    if (lstat(path, &status) || !S_ISDIR(status.st_mode) || status.st_uid != owner)
        return error_set(err, E_FAILED_PRECONDITION, "%s is not a folder of uid %u", path,
                         (unsigned)owner);
    return 0;
}

/* Programs expect to find one: caches and settings are there, and stay there. */
static int make_home(const struct users *users, uid_t uid, char ret[PATH_BYTES], struct error *err)
{
    char parent[PATH_BYTES];
    if (str_printf(parent, sizeof(parent), "%s/home", users->dir) ||
        str_printf(ret, PATH_BYTES, "%s/%u", parent, (unsigned)uid))
        return error_set(err, E_OUT_OF_RANGE, "path is too long: %s", users->dir);
    int rc = make_folder(parent, 0711, geteuid(), err);
    if (rc)
        return rc;
    return make_folder(ret, 0700, uid, err);
}

static int find_given(struct users *users, const char *tenant, struct arena *arena,
                      const struct launch_user **ret, struct error *err)
{
    char home[PATH_BYTES];
    uid_t uid = 0;
    int rc = 0;
    for (int i = 0; i < users->given_count && !uid; i++)
        if (strcmp(users->given[i].tenant, tenant) == 0)
            uid = users->given[i].uid;
    if (!uid)
        rc = give_uid(users, tenant, &uid, err);
    else if (is_the_systems(uid)) /* since then */
        rc = error_set(err, E_FAILED_PRECONDITION,
                       "uid %u, which was made for tenant %s, is now a user's or group's of this "
                       "node",
                       (unsigned)uid, tenant);
    if (!rc)
        rc = make_home(users, uid, home, err);
    if (rc)
        return rc;
    struct launch_user *user = arena_alloc(arena, sizeof(*user));
    if (user)
        *user = (struct launch_user){.uid = uid,
                                     .gid = uid,
                                     .name = arena_strdup(arena, tenant),
                                     .home = arena_strdup(arena, home),
                                     .shell = "/bin/sh"};
    if (!user || !user->name || !user->home)
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory for the user of %s", tenant);
    *ret = user;
    return 0;
}

/* Choices of the whole node */

static int refuse_root(struct error *err)
{
    error_set(err, E_INVALID_ARGUMENT,
              "workers would run as root: every job could take over this machine, and other "
              "tenants' jobs");
    error_hint(err, "--worker-uids 1900000000-1900999999 makes a user for each tenant, "
                    "--worker-users FILE names the users; --allow-root-workers if only root "
                    "submits");
    return E_INVALID_ARGUMENT;
}

static int share_one(struct users *users, const struct users_options *options, struct error *err)
{
    int rc = read_user(options->user, &users->arena, &users->common, err);
    if (rc)
        return rc;
    if (users->common->uid == 0 && geteuid() == 0 && !options->allow_root)
        return refuse_root(err);
    users->change = users->common->uid != geteuid();
    if (users->change && geteuid() != 0)
        return error_set(err, E_PERMISSION_DENIED, "only root can run workers as %s",
                         options->user);
    const char *lacks = arena_printf(&users->arena,
                                     "jobs of all tenants run as %s and are not kept from each "
                                     "other",
                                     options->user);
    users->lacks = lacks ? lacks : "";
    return 0;
}

static int choose_source(struct users *users, const struct users_options *options,
                         struct error *err)
{
    if (options->user && (options->table || options->uids))
        return error_set(err, E_INVALID_ARGUMENT,
                         "--worker-user is for all tenants; leave out --worker-users and "
                         "--worker-uids");
    if (options->user)
        return share_one(users, options, err);
    if (!options->table && !options->uids) {
        if (geteuid() == 0 && !options->allow_root)
            return refuse_root(err);
        users->lacks = geteuid() == 0
                           ? "jobs run as root and are not kept from the node or each other"
                           : "jobs run as the agent's user and are not kept from it or each other";
        return 0;
    }
    if (geteuid() != 0)
        return error_set(err, E_PERMISSION_DENIED, "only root can run workers as other users");
    users->change = true;
    int rc = options->uids ? read_range(users, options->uids, err) : 0;
    if (!rc && options->table)
        rc = read_table(users, options->table, err);
    return rc;
}

int users_init(struct users *users, const struct users_options *options, const struct disk *disk,
               struct error *err)
{
    *users = (struct users){.disk = disk, .lacks = ""};
    users->dir = arena_strdup(&users->arena, options->dir);
    int rc = users->dir ? choose_source(users, options, err)
                        : error_set(err, E_RESOURCE_EXHAUSTED, "no memory for users");
    if (!rc && users->last)
        rc = read_given(users, err);
    if (rc)
        users_fini(users);
    return rc;
}

void users_fini(struct users *users)
{
    arena_fini(&users->arena);
    *users = (struct users){0};
}

int users_find(struct users *users, const char *tenant, struct arena *arena,
               const struct launch_user **ret, struct error *err)
{
    *ret = users->common;
    if (!users->change) {
        *ret = NULL;
        return 0;
    }
    if (users->common)
        return 0;
    if (!tenant[0] || strchr(tenant, ' ') || strchr(tenant, '\n'))
        return error_set(err, E_INVALID_ARGUMENT, "the job was sent without a tenant");
    const char *named = user_in_table(users, tenant);
    if (named)
        return find_named(named, tenant, arena, ret, err);
    if (users->last)
        return find_given(users, tenant, arena, ret, err);
    error_set(err, E_PERMISSION_DENIED, "tenant %s has no user on this node", tenant);
    error_hint(err, "add it to the file of --worker-users");
    return E_PERMISSION_DENIED;
}
