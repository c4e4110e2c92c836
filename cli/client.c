#include "cli/client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/clusters.h"
#include "cli/escape.h"
#include "common/base/arena.h"
#include "common/base/parse.h"
#include "common/base/str.h"
#include "common/base/token.h"
#include "common/base/tree.h"
#include "common/base/tree_write.h"
#include "common/env/net_reach.h"
#include "common/env/net_url.h"
#include "common/env/paths.h"
#include "common/rpc/message.h"

enum {
    CONFIG_MAX_BYTES = 64 << 10,
    CALL_TIMEOUT_MS = 6000,
    CONNECT_MS = 4000, /* for a connection to be accepted or refused */
    SILENCE_MS = 1000, /* of what accepted it, before it is looked at */
    PROTOCOL_MS = 500, /* that look */
};

const char *const output_formats[] = {"table", "json", "yaml", NULL};

struct one_call { /* under way */
    bool done;
    ProtobufCMessage *answer;
    struct error err;
};

struct place { /* an address with its source */
    char url[256];
    char origin[256]; /* of url */
    char token[256];
};

int client_read_line(const char *path, char *ret, size_t size, struct error *err)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return error_errno(err, errno, "%s", path);
    if (!fgets(ret, (int)size, file))
        ret[0] = '\0';
    fclose(file);
    ret[strcspn(ret, "\r\n")] = '\0';
    return 0;
}

/* Fill missing parts of a place from another one. A token that belongs to another address is for
 * that one's coordinator, and is not sent to this one. */
static void take(struct place *place, const struct place *from)
{
    bool ours = !place->url[0] || !from->url[0] || strcmp(place->url, from->url) == 0;
    if (!place->url[0] && from->url[0]) {
        str_copy(place->url, sizeof(place->url), from->url);
        str_copy(place->origin, sizeof(place->origin), from->origin);
    }
    if (!place->token[0] && ours)
        str_copy(place->token, sizeof(place->token), from->token);
}

static void warn_if_others_read(FILE *file, const char *path)
{
    struct stat st;
    if (fstat(fileno(file), &st) == 0 && st.st_mode & (S_IRWXG | S_IRWXO))
        fprintf(stderr, "muster: others may read the token in %s: chmod 600 it\n", path);
}

static int place_fill(struct place *place, const char *url, const char *token, struct error *err)
{
    if (str_copy(place->url, sizeof(place->url), url) ||
        str_copy(place->token, sizeof(place->token), token))
        return error_set(err, E_INVALID_ARGUMENT, "address or token is too long");
    return 0;
}

static int read_config(struct place *place, struct error *err)
{
    char dir[512], path[640];
    struct error ignored;
    if (paths_config_dir(dir, sizeof(dir), &ignored) ||
        paths_join(path, sizeof(path), dir, "config.yaml", &ignored))
        return 0;
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    static const char *const keys[] = {"addr", "token", NULL};
    char text[CONFIG_MAX_BYTES];
    size_t size = fread(text, 1, sizeof(text), file);
    const char *url = "", *secret = "";
    struct arena arena;
    arena_init(&arena, 1 << 20);
    struct tree *tree = NULL, *child;
    int rc = tree_parse_yaml(&(struct tree_input){.name = path, .text = text, .size = size}, &arena,
                             &tree, err);
    if (!rc) {
        tree_each(child, tree) {
            const char *value = "";
            bool addr = strcmp(child->key, "addr") == 0, token = strcmp(child->key, "token") == 0;
            if (!addr && !token) {
                const char *nearest = str_nearest(child->key, keys);
                rc = tree_fail(child, err, "%s: unknown key '%s'", path, child->key);
                error_hint(err, "did you mean '%s'?", nearest ? nearest : "addr");
                break;
            }
            rc = tree_read_string(child, &value, err);
            if (rc)
                break;
            url = addr ? value : url;
            secret = token ? value : secret;
        }
    }
    if (!rc) {
        struct place found = {0};
        str_copy(found.origin, sizeof(found.origin), path);
        rc = place_fill(&found, url, secret, err);
        take(place, &found);
    }
    if (secret[0])
        warn_if_others_read(file, path);
    arena_fini(&arena);
    fclose(file);
    return rc;
}

/* The data folder of the default cluster: the one that `current` points to, or, with a message, the
 * newest running one if that has ended. False if there is none. */
static bool local_cluster(char ret_data[PATH_MAX], bool tell)
{
    char other[PATH_MAX];
    bool any = clusters_current(ret_data);
    if ((any && clusters_runs(ret_data)) || !clusters_newest(NULL, other))
        return any;
    if (tell)
        fprintf(stderr, "muster: talking to the cluster in %s%s%s\n", other,
                any ? ", since this one has ended: " : "", any ? ret_data : "");
    (void)str_copy(ret_data, PATH_MAX, other);
    return true;
}

/* Read what `muster up` wrote: rpc.url and admin.token in its data folder. */
static void read_local(struct place *place)
{
    char data[PATH_MAX], path[PATH_MAX + 16];
    struct place found = {0};
    struct error ignored;
    if (!local_cluster(data, !place->url[0]))
        return;
    snprintf(path, sizeof(path), "%s/rpc.url", data);
    (void)client_read_line(path, found.url, sizeof(found.url), &ignored);
    snprintf(path, sizeof(path), "%s/admin.token", data);
    (void)client_read_line(path, found.token, sizeof(found.token), &ignored);
    snprintf(found.origin, sizeof(found.origin), "what `muster up` wrote to %.200s", data);
    take(place, &found);
}

static int find_place(const struct args *args, struct place *ret, struct error *err)
{
    const char *url = args_text(args, "addr"), *token = args_text(args, "token");
    const char *origin = url ? "--addr" : "MUSTER_ADDR";
    url = url ? url : getenv("MUSTER_ADDR");
    token = token ? token : getenv("MUSTER_TOKEN");
    str_copy(ret->origin, sizeof(ret->origin), origin);
    int rc = place_fill(ret, url ? url : "", token ? token : "", err);
    if (!rc && (!ret->url[0] || !ret->token[0]))
        rc = read_config(ret, err);
    if (!rc && (!ret->url[0] || !ret->token[0]))
        read_local(ret);
    if (!rc && !ret->url[0]) {
        rc = error_set(err, E_UNAVAILABLE, "no coordinator is known here");
        error_hint(err, "start one with `muster up`, or name one with --addr or MUSTER_ADDR");
    }
    return rc;
}

int client_dial(const char *url, const char *token, struct rpc_sync **ret, struct error *err)
{
    char address[NET_ADDRESS_MAX];
    const char *pin = getenv("MUSTER_PIN");
    pin = pin && *pin ? pin : token_pin(token);
    if (net_url_tcp(url) && !pin)
        return error_set(err, E_NOT_FOUND, "no key is known for %s", url);
    int rc = net_address_secure(url, NULL, pin, address, err);
    if (rc)
        return rc;
    return rpc_sync_new(address, token[0] ? token : NULL, ret, err);
}

static void hint_origin(const struct client *client, struct error *err)
{
    if (!err->hint[0])
        error_hint(err, "the address is from %s; `muster up` starts a coordinator here",
                   client->origin);
}

/* An error in the address precedes a missing key. */
static int without_pin(const struct client *client, bool has_token, struct error *err)
{
    int rc = net_reach(client->url, CONNECT_MS, err);
    if (!rc)
        rc = net_reach_protocol(client->url, PROTOCOL_MS, err);
    if (rc) {
        hint_origin(client, err);
        return rc;
    }
    if (!has_token) {
        error_set(err, E_UNAUTHENTICATED, "this call needs a token, and none is known for %s",
                  client->url);
        error_hint(err, "pass --token or MUSTER_TOKEN: the whole token, which also names the "
                        "coordinator's key");
        return E_UNAUTHENTICATED;
    }
    error_set(err, E_UNAUTHENTICATED, "the key of the coordinator at %s is not known", client->url);
    error_hint(err, "a token ends with a dot and the key: pass the whole token (DATA/admin.token, "
                    "`muster token create`), or set MUSTER_PIN (`muster tls show` on the "
                    "coordinator's machine)");
    return E_UNAUTHENTICATED;
}

int client_open(const struct args *args, struct client *ret, struct error *err)
{
    struct place place = {0};
    *ret = (struct client){0};
    int rc = find_place(args, &place, err);
    if (!rc && (rc = net_url_check(place.url, err)) != 0)
        error_wrap(err, "%s", place.origin);
    if (rc)
        return rc;
    str_copy(ret->url, sizeof(ret->url), place.url);
    str_copy(ret->origin, sizeof(ret->origin), place.origin);
    rc = client_dial(place.url, place.token, &ret->rpc, err);
    return rc == E_NOT_FOUND ? without_pin(ret, place.token[0], err) : rc;
}

void client_close(struct client *client)
{
    rpc_sync_free(client->rpc);
    client->rpc = NULL;
}

static void on_done(void *arg, const struct error *err, const ProtobufCMessage *answer)
{
    struct one_call *call = arg;
    call->done = true;
    call->err = *err;
    if (answer && !(call->answer = rpc_message_copy(answer)))
        error_set(&call->err, E_RESOURCE_EXHAUSTED, "no memory for the answer");
}

/* The first answer of all: what listens there may be no coordinator, or a busy one. */
static int wait_for_first(struct client *client, struct one_call *call, struct error *err)
{
    if (!client->reached)
        rpc_sync_wait(client->rpc, SILENCE_MS);
    if (!call->done && !client->reached)
        return net_reach_protocol(client->url, PROTOCOL_MS, err);
    return 0;
}

static bool unanswered(int rc)
{
    return rc == E_UNAVAILABLE || rc == E_DEADLINE_EXCEEDED;
}

static int call_and_wait(struct client *client, const char *method, const void *request,
                         const struct rpc_options *options, struct one_call *call,
                         struct error *err)
{
    char time[FORMAT_MAX];
    struct rpc_sync_start how = {.options = *options, .done = on_done, .arg = call};
    int rc =
        rpc_sync_start(client->rpc, &muster__coordinator__descriptor, method, request, &how, err);
    if (!rc)
        rc = wait_for_first(client, call, err);
    while (!rc && !call->done)
        rpc_sync_wait(client->rpc, SILENCE_MS);
    if (rc || call->err.code == 0)
        return rc;
    *err = call->err;
    if (err->code == E_DEADLINE_EXCEEDED && !client->reached)
        error_set(err, err->code,
                  "%s accepts connections but has not answered for %s: it is busy or stopped, or "
                  "is not a coordinator",
                  client->url, format_duration(options->timeout_ms, time));
    return err->code;
}

static int call_reaching(struct client *client, const char *method, const void *request,
                         const struct rpc_options *how, void *ret_answer, struct error *err)
{
    int64_t wait_ms = how->timeout_ms < CONNECT_MS ? how->timeout_ms : CONNECT_MS;
    struct one_call call = {0};
    int rc = client->reached ? 0 : net_reach(client->url, wait_ms, err);
    if (!rc)
        rc = call_and_wait(client, method, request, how, &call, err);
    rpc_sync_cancel(client->rpc, &call); /* it may have been given up */
    if (unanswered(rc) && !client->reached)
        hint_origin(client, err);
    client->reached = client->reached || !unanswered(rc);
    if (!rc)
        *(ProtobufCMessage **)ret_answer = call.answer;
    return rc;
}

/* A call that may not run twice is not tried again, also where a busy coordinator was slow to
 * accept the connection: one that may run twice waits for that. */
static int reach_for(struct client *client, const struct rpc_options *how, struct error *err)
{
    Muster__VersionRequest request = MUSTER__VERSION_REQUEST__INIT;
    Muster__VersionAnswer *answer = NULL;
    bool brief = how->timeout_ms > 0 && how->timeout_ms < CALL_TIMEOUT_MS;
    struct rpc_options first = {.timeout_ms = brief ? how->timeout_ms : CALL_TIMEOUT_MS,
                                .retry = true};
    int rc = call_reaching(client, "Version", &request, &first, &answer, err);
    rpc_message_free(answer);
    return rc;
}

int client_call(struct client *client, const char *method, const void *request,
                const struct rpc_options *options, void *ret_answer, struct error *err)
{
    struct rpc_options usual = {.timeout_ms = CALL_TIMEOUT_MS, .retry = true};
    const struct rpc_options *how = options ? options : &usual;
    if (!client->reached && !how->retry && reach_for(client, how, err))
        return err->code;
    return call_reaching(client, method, request, how, ret_answer, err);
}

int client_fail(const struct error *err)
{
    fflush(stdout);
    /* A refusal of the command line names the verb already. */
    const char *prefix = str_starts(err->text, "muster ") ? "" : "muster: ";
    char *escaped = escape_text(err->text, true);
    const char *text = escaped ? escaped : err->text;
    fprintf(stderr, "%s%s\n", prefix, text[0] ? text : error_name(err->code));
    free(escaped);
    if (err->field[0] && !strstr(err->text, err->field))
        fprintf(stderr, "        field: %s\n", err->field);
    if (err->hint[0])
        fprintf(stderr, "        %s\n", err->hint);
    switch (err->code) {
    case E_UNAVAILABLE:
    case E_DEADLINE_EXCEEDED:
    case E_UNAUTHENTICATED:
    case E_PERMISSION_DENIED:
        return EXIT_UNREACHABLE;
    case E_INVALID_ARGUMENT:
    case E_NOT_FOUND:
    case E_OUT_OF_RANGE:
    case E_ALREADY_EXISTS:
    case E_FAILED_PRECONDITION:
        return EXIT_USAGE;
    default:
        return EXIT_JOB_FAILED;
    }
}

int client_ask(const struct args *args, const char *method, const void *request, void *ret_answer)
{
    struct client client = {0};
    struct error err = {0};
    int rc = client_open(args, &client, &err);
    if (!rc)
        rc = client_call(&client, method, request, NULL, ret_answer, &err);
    client_close(&client);
    if (rc)
        return client_fail(&err);
    return 0;
}

static void print_message(const char *format, const void *message, bool pretty)
{
    struct error err = {0};
    struct buf out = {0};
    struct transcode_output_options options = {.defaults = true, .pretty = pretty};
    int rc;
    if (strcmp(format, "json") == 0) {
        rc = transcode_to_json(message, &options, &out, &err);
        buf_char(&out, '\n');
    } else {
        struct arena arena;
        struct tree *tree;
        arena_init(&arena, 64 << 20);
        rc = transcode_to_tree(message, &options, &arena, &tree, &err);
        if (!rc)
            rc = tree_write_yaml(tree, &out, &err);
        arena_fini(&arena);
    }
    if (!rc)
        fputs(buf_cstr(&out), stdout);
    else
        client_fail(&err);
    buf_fini(&out);
}

bool client_printed(const struct args *args, const void *message)
{
    const char *format = args_text(args, "output");
    if (strcmp(format, "table") == 0) {
        escape_message((void *)(uintptr_t)message);
        return false;
    }
    print_message(format, message, true);
    return true;
}

void client_tell_refused(FILE *out, const char *why)
{
    if (why[0])
        fprintf(out, "%s. Workers train on; no job starts, and no change is accepted.\n", why);
}

void client_print_item(const char *format, const void *message)
{
    if (strcmp(format, "yaml") == 0)
        puts("---");
    print_message(format, message, false);
}

int client_job(struct client *client, const char *id, Muster__Job **ret)
{
    Muster__GetJobRequest request = MUSTER__GET_JOB_REQUEST__INIT;
    struct error err = {0};
    request.id = (char *)id;
    int rc = client_call(client, "GetJob", &request, NULL, ret, &err);
    if (rc)
        return client_fail(&err);
    return 0;
}

const char *job_state_word(Muster__Job__State state)
{
    const char *name = transcode_enum_name(&muster__job__state__descriptor, (int)state);
    return name ? name : "unknown";
}

const char *job_word(const Muster__Job *job)
{
    return job->stalled_wall_ms ? "stalled" : job_state_word(job->state);
}

const char *age_text(int64_t wall_ms, char ret[FORMAT_MAX])
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t age_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000 - wall_ms;
    if (wall_ms == 0)
        snprintf(ret, FORMAT_MAX, "-");
    else
        format_duration(age_ms < 0 ? 0 : age_ms / 1000 * 1000, ret);
    return ret;
}

const char *count_text(double value, char ret[FORMAT_MAX])
{
    static const char units[] = "kMGTPE";
    int unit = -1;
    for (; value >= 1e3 && unit + 1 < (int)sizeof(units) - 1; unit++)
        value /= 1e3;
    if (unit >= 0)
        snprintf(ret, FORMAT_MAX, "%.1f%c", value, units[unit]);
    else
        snprintf(ret, FORMAT_MAX, "%.0f", value);
    return ret;
}
