/* muster tls: the keys of a cluster, on the coordinator's machine */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/client.h"
#include "cli/clusters.h"
#include "common/base/str.h"
#include "common/env/disk_os.h"
#include "common/env/paths.h"
#include "common/env/tls_key.h"

static const char *const actions[] = {"init", "rotate", "show", NULL};

static const struct args_option options[] = {
    {.name = "data",
     .kind = ARGS_OPTION,
     .value_name = "DIR",
     .help = "the coordinator's data folder (else that of `muster up`, or "
             "~/.local/share/muster/coordinator)"},
    {.name = "cluster-key",
     .kind = ARGS_FLAG,
     .help = "rotate: make a new cluster key too. Tokens and nodes that know the old one go on; "
             "tokens made from then on know the new one"},
    {.name = "action",
     .kind = ARGS_POSITIONAL,
     .required = true,
     .choices = actions,
     .help = "what to do"},
    {0},
};
static const char *const examples[] = {
    "muster tls show",
    "muster tls rotate --data /var/lib/muster",
    NULL,
};
static const struct args_command command = {
    .program = "muster tls",
    .summary = "make, renew and show the keys of a cluster",
    .description =
        "A coordinator makes its keys at its first start and renews its certificate by itself, so "
        "nothing of this is needed: init makes them before that, rotate makes a new server key at "
        "once. A running coordinator takes them up within a second, and no connection ends.\n\n"
        "DIR/cluster.pem is the identity of the cluster: its fingerprint stands behind every "
        "token. Once there is a server key it may be kept elsewhere, until that is to be renewed.",
    .options = options,
    .examples = examples,
};

struct files {
    char data[PATH_MAX], cluster[PATH_MAX], server[PATH_MAX];
};

static int find_data(const struct args *args, char ret[PATH_MAX], struct error *err)
{
    char base[PATH_MAX];
    const char *given = args_text(args, "data");
    if (given)
        return paths_absolute(ret, PATH_MAX, given, err);
    if (clusters_current(ret))
        return 0;
    int rc = paths_data_dir(base, sizeof(base), err);
    return rc == 0 ? paths_join(ret, PATH_MAX, base, "coordinator", err) : rc;
}

static int find_files(const struct args *args, struct files *ret, struct error *err)
{
    int rc = find_data(args, ret->data, err);
    if (rc == 0)
        rc = paths_join(ret->cluster, sizeof(ret->cluster), ret->data, "cluster.pem", err);
    return rc == 0 ? paths_join(ret->server, sizeof(ret->server), ret->data, "server.pem", err)
                   : rc;
}

static int init(const struct files *files, struct error *err)
{
    struct disk disk = disk_os();
    if (access(files->cluster, F_OK) == 0 || access(files->server, F_OK) == 0) {
        error_set(err, E_ALREADY_EXISTS, "%s has keys already", files->data);
        error_hint(err, "`muster tls rotate` makes new ones that clients accept");
        return E_ALREADY_EXISTS;
    }
    int rc = disk.make_dirs(disk.self, files->data, 0700, err);
    if (rc == 0)
        rc = tls_make_cluster_key(files->cluster, NULL, err);
    return rc == 0 ? tls_make_server_key(files->server, files->cluster, err) : rc;
}

static int rotate(const struct files *files, bool cluster_key, struct error *err)
{
    if (access(files->cluster, R_OK) != 0) {
        error_set(err, E_NOT_FOUND, "%s: there is no cluster key that could sign a new one",
                  files->cluster);
        error_hint(err, "put it back where it was kept, or name the folder with --data");
        return E_NOT_FOUND;
    }
    int rc = cluster_key ? tls_make_cluster_key(files->cluster, files->cluster, err) : 0;
    return rc == 0 ? tls_make_server_key(files->server, files->cluster, err) : rc;
}

static int show(const struct files *files, struct error *err)
{
    struct tls_facts facts;
    char date[32];
    int rc = tls_read_facts(files->server, &facts, err);
    if (rc != 0)
        return rc;
    time_t end = (time_t)(facts.expires_wall_ms / 1000);
    struct tm parts;
    (void)strftime(date, sizeof(date), "%Y-%m-%d", gmtime_r(&end, &parts));
    printf("cluster key  %s\nserver key   %s\nserver until %s\nfolder       %s\n", facts.signer,
           facts.pin, date, files->data);
    return 0;
}

static int run(const struct args *args)
{
    struct files files;
    struct error err = {0};
    const char *action = args_text(args, "action");
    int rc = find_files(args, &files, &err);
    if (rc == 0 && strcmp(action, "init") == 0)
        rc = init(&files, &err);
    else if (rc == 0 && strcmp(action, "rotate") == 0)
        rc = rotate(&files, args_flag(args, "cluster-key"), &err);
    if (rc == 0)
        rc = show(&files, &err);
    return rc == 0 ? 0 : client_fail(&err);
}

const struct verb verb_tls = {.name = "tls", .command = &command, .run = run};
