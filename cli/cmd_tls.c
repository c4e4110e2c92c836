/* muster tls: the keys of a cluster, on the coordinator's machine */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "cli/client.h"
#include "cli/clusters.h"
#include "common/base/buf.h"
#include "common/base/str.h"
#include "common/base/token.h"
#include "common/env/disk_os.h"
#include "common/env/paths.h"
#include "common/env/tls_key.h"
#include "common/env/tls_read.h"

static const char *const actions[] = {"init", "rotate", "show", "ca", NULL};

static const struct args_option options[] = {
    {.name = "data",
     .kind = ARGS_OPTION,
     .value_name = "DIR",
     .help = "the coordinator's data folder (else that of `muster up`, or "
             "~/.local/share/muster/coordinator)"},
    {.name = "cluster-key",
     .kind = ARGS_FLAG,
     .help = "rotate: make a new cluster key too. Tokens and nodes with the old key still work; "
             "tokens made later have the new key"},
    {.name = "drop-oldest",
     .kind = ARGS_FLAG,
     .help = "rotate --cluster-key: drop the oldest key even if it is the only one that some "
             "tokens or nodes have"},
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
    "muster tls ca > muster-ca.pem",
    NULL,
};
static const struct args_command command = {
    .program = "muster tls",
    .summary = "make, renew and show the keys of a cluster",
    .description =
        "A coordinator makes its keys at its first start and renews its certificate itself. So "
        "these verbs are rarely needed. init makes the keys before the first start. rotate makes a "
        "new server key at once. A running coordinator uses new keys within a second, and no "
        "connection ends.\n"
        "\n"
        "DIR/cluster.pem is the identity of the cluster: every token ends with its fingerprint. "
        "After the server key is made, cluster.pem may be kept elsewhere; it is needed again to "
        "renew the server key.\n"
        "\n"
        "REST beyond loopback uses the same key. ca prints the certificates for browsers and `curl "
        "--cacert`. They stay valid when the server's key changes; the pin for `curl "
        "--pinnedpubkey` does not.",
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
    if (rc)
        return rc;
    return paths_join(ret, PATH_MAX, base, "coordinator", err);
}

static int find_files(const struct args *args, struct files *ret, struct error *err)
{
    int rc = find_data(args, ret->data, err);
    if (!rc)
        rc = paths_join(ret->cluster, sizeof(ret->cluster), ret->data, "cluster.pem", err);
    if (rc)
        return rc;
    return paths_join(ret->server, sizeof(ret->server), ret->data, "server.pem", err);
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
    if (!rc)
        rc = tls_make_cluster_key(files->cluster, NULL, err);
    if (rc)
        return rc;
    return tls_make_server_key(files->server, files->cluster, NULL, err);
}

/* How many know the coordinator by what they were given before `until_wall_ms`. */
struct dependants {
    int tokens, nodes;
};

static int open_own(const struct files *files, struct client *ret, struct error *err)
{
    char path[PATH_MAX], token[TOKEN_TEXT_MAX];
    int rc = paths_join(path, sizeof(path), files->data, "rpc.url", err);
    if (!rc)
        rc = client_read_line(path, ret->url, sizeof(ret->url), err);
    if (!rc)
        rc = paths_join(path, sizeof(path), files->data, "admin.token", err);
    if (!rc)
        rc = client_read_line(path, token, sizeof(token), err);
    if (rc)
        return rc;
    return client_dial(ret->url, token, &ret->rpc, err);
}

static int count_dependants(const struct files *files, int64_t until_wall_ms,
                            struct dependants *ret, struct error *err)
{
    struct client client = {0};
    Muster__ListTokensRequest all_tokens = MUSTER__LIST_TOKENS_REQUEST__INIT;
    Muster__ListNodesRequest all_nodes = MUSTER__LIST_NODES_REQUEST__INIT;
    Muster__ListTokensAnswer *tokens = NULL;
    Muster__ListNodesAnswer *nodes = NULL;
    int64_t now_ms = (int64_t)time(NULL) * 1000;
    int rc = open_own(files, &client, err);
    if (!rc)
        rc = client_call(&client, "ListTokens", &all_tokens, NULL, &tokens, err);
    if (!rc)
        rc = client_call(&client, "ListNodes", &all_nodes, NULL, &nodes, err);
    *ret = (struct dependants){0};
    for (size_t i = 0; !rc && i < tokens->n_tokens; i++) {
        const Muster__Token *token = tokens->tokens[i];
        bool ended =
            token->revoked_wall_ms || (token->expires_wall_ms && token->expires_wall_ms <= now_ms);
        if (!ended && token->created_wall_ms < until_wall_ms)
            ret->tokens++;
    }
    for (size_t i = 0; !rc && i < nodes->n_nodes; i++) {
        if (nodes->nodes[i]->joined_wall_ms < until_wall_ms)
            ret->nodes++;
    }
    rpc_message_free(tokens);
    rpc_message_free(nodes);
    client_close(&client);
    return rc;
}

/* Nothing is known of which key a token was handed out with but when it was made. */
static int check_oldest(const struct files *files, bool drop, struct error *err)
{
    struct tls_oldest oldest;
    struct dependants count;
    char date[FORMAT_MAX];
    int rc = tls_read_oldest(files->cluster, &oldest, err);
    if (rc == E_NOT_FOUND) {
        error_clear(err);
        return 0;
    }
    if (rc)
        return rc;
    bool known = !count_dependants(files, oldest.until_wall_ms, &count, err);
    error_clear(err);
    if (known && count.tokens == 0 && count.nodes == 0)
        return 0;
    (void)format_time(oldest.until_wall_ms, date);
    if (known)
        error_set(
            err, E_FAILED_PRECONDITION,
            "the key %s would be dropped: %d tokens made and %d nodes joined before %s may have no "
            "other",
            oldest.pin, count.tokens, count.nodes, date);
    else
        error_set(err, E_FAILED_PRECONDITION,
                  "the key %s would be dropped: tokens made and nodes joined before %s may have no "
                  "other; the coordinator, which could count them, does not answer",
                  oldest.pin, date);
    if (drop) {
        fprintf(stderr, "muster: %s\n", err->text);
        error_clear(err);
        return 0;
    }
    error_hint(err, "first make new tokens for users and nodes (--token-file); --drop-oldest "
                    "rotates without that");
    return E_FAILED_PRECONDITION;
}

/* A rotation of the cluster key that was cut off has left a key that no client was shown. */
static bool is_unshown(const struct files *files)
{
    struct tls_facts server, cluster;
    return !tls_read_facts(files->server, &server, NULL) &&
           !tls_read_facts(files->cluster, &cluster, NULL) &&
           strcmp(server.signer, cluster.pin) != 0;
}

static int rotate_alone(const struct files *files, const struct args *args, struct error *err)
{
    bool cluster_key = args_flag(args, "cluster-key") && !is_unshown(files);
    if (access(files->cluster, R_OK) != 0) {
        error_set(err, E_NOT_FOUND, "%s: there is no cluster key that could sign a new one",
                  files->cluster);
        error_hint(err, "put it back where it was kept, or name the folder with --data");
        return E_NOT_FOUND;
    }
    int rc = cluster_key ? check_oldest(files, args_flag(args, "drop-oldest"), err) : 0;
    if (!rc && cluster_key)
        rc = tls_make_cluster_key(files->cluster, files->cluster, err);
    if (rc)
        return rc;
    return tls_make_server_key(files->server, files->cluster, NULL, err);
}

/* One at a time: otherwise a server key could be signed by a cluster key that is being replaced. */
static int rotate(const struct files *files, const struct args *args, struct error *err)
{
    char path[PATH_MAX + 16];
    (void)str_printf(path, sizeof(path), "%s/tls.lock", files->data);
    int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || flock(fd, LOCK_EX) < 0) {
        (void)error_errno(err, errno, "cannot lock %s", path);
        if (fd >= 0)
            close(fd);
        return err->code;
    }
    int rc = rotate_alone(files, args, err);
    close(fd);
    return rc;
}

/* In curl's form: base64 with padding, in the other alphabet. */
static void print_curl_pin(const char *pin)
{
    char text[TLS_PIN_MAX];
    (void)str_copy(text, sizeof(text), pin);
    for (char *c = text; *c; c++)
        *c = *c == '-' ? '+' : *c == '_' ? '/' : *c;
    printf("pin for curl sha256//%s=\n", text);
}

static int show(const struct files *files, struct error *err)
{
    struct tls_facts facts;
    struct buf names;
    char date[32];
    int rc = tls_read_facts(files->server, &facts, err);
    buf_init(&names, TLS_NAMES_MAX * (TLS_NAME_MAX + 2));
    if (!rc)
        rc = tls_read_names(files->server, &names, err);
    if (!rc) {
        time_t end = (time_t)(facts.expires_wall_ms / 1000);
        struct tm parts;
        (void)strftime(date, sizeof(date), "%Y-%m-%d", gmtime_r(&end, &parts));
        printf("cluster key  %s\nserver key   %s\nserver until %s\nserver names %s\n", facts.signer,
               facts.pin, date, buf_cstr(&names));
        print_curl_pin(facts.pin);
        printf("folder       %s\n", files->data);
    }
    buf_fini(&names);
    return rc;
}

static int show_authorities(const struct files *files, struct error *err)
{
    struct buf pem;
    buf_init(&pem, TLS_FILE_MAX_BYTES);
    int rc = tls_read_authorities(files->server, &pem, err);
    if (!rc)
        fputs(buf_cstr(&pem), stdout);
    buf_fini(&pem);
    return rc;
}

static int check_made(const struct files *files, struct error *err)
{
    if (access(files->server, F_OK) == 0 || errno != ENOENT || access(files->cluster, F_OK) == 0 ||
        errno != ENOENT)
        return 0;
    error_set(err, E_NOT_FOUND, "no coordinator has keys in %s", files->data);
    error_hint(err, "--data names a coordinator's folder; its first start, or `muster tls init`, "
                    "makes them");
    return E_NOT_FOUND;
}

static int run_tls(const struct args *args)
{
    struct files files;
    struct error err = {0};
    const char *action = args_text(args, "action");
    int rc = find_files(args, &files, &err);
    if (!rc)
        rc = strcmp(action, "init") == 0 ? init(&files, &err) : check_made(&files, &err);
    if (!rc && strcmp(action, "rotate") == 0)
        rc = rotate(&files, args, &err);
    if (!rc)
        rc = strcmp(action, "ca") == 0 ? show_authorities(&files, &err) : show(&files, &err);
    if (rc)
        return client_fail(&err);
    return 0;
}

const struct verb verb_tls = {.name = "tls", .command = &command, .run = run_tls};
