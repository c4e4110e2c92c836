/* Bytes of a browser, a script or a stranger at the HTTP port of a whole coordinator, over a real
 * connection whose sending half then ends. "{A}", "{M}" and "{V}" in the input stand for tokens of
 * an administrator, a member and a viewer. Whatever comes, what comes back is HTTP, nothing fails
 * inside, and nobody without a token is told of a job.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/assert.h"
#include "common/base/buf.h"
#include "common/base/str.h"
#include "common/base/token.h"
#include "common/env/clock_os.h"
#include "common/env/disk_os.h"
#include "common/env/rng_os.h"
#include "common/loop/loop.h"
#include "coordinator/api_rest/api_rest.h"
#include "coordinator/api_rpc/service.h"
#include "coordinator/coordinator.h"
#include "coordinator/store/store_memory.h"
#include "proto/client.pb-c.h"
#include "tests/fuzz/fuzz.h"

enum {
    INPUTS_PER_TOWN = 2000, /* then what they have made is thrown away */
    ANSWER_MAX_BYTES = 64 << 20,
    INPUT_MAX_BYTES = 4 << 20,
    LOOK_MS = 1,
    SILENCE_MS = 40, /* a stream or a long poll that says nothing this long is left */
    CALL_MS = 60000,
};
static const char secret_name[] = "nobodys-business";

static struct town {
    struct env env;
    struct loop *loop;
    struct store *store;
    struct coordinator *coordinator;
    struct api_rest *api;
    struct sockaddr_in address;
    char admin[TOKEN_TEXT_MAX], member[TOKEN_TEXT_MAX], viewer[TOKEN_TEXT_MAX];
    int inputs;
} town;

static char dir[64];

/* RPC: nobody connects. */

static int listen_nowhere(void *self, const char *url, int max_in_flight, net_request_fn on_request,
                          net_gone_fn on_gone, void *arg, struct net_listener **ret,
                          struct error *err)
{
    (void)url, (void)max_in_flight, (void)on_request, (void)on_gone, (void)arg, (void)err;
    *ret = self;
    return 0;
}

static const char *url_of(struct net_listener *listener)
{
    (void)listener;
    return "tcp://127.0.0.1:1";
}

static void close_nowhere(struct net_listener *listener)
{
    (void)listener;
}

/* Calls of the setup, past HTTP */

struct asked {
    bool done;
    char *keep; /* where the token that was made goes, or NULL */
};

static void answered(void *arg, uint64_t tag, const struct error *err,
                     const ProtobufCMessage *answer)
{
    struct asked *asked = arg;
    (void)tag;
    insist(!err);
    if (asked->keep)
        insist(str_copy(asked->keep, TOKEN_TEXT_MAX,
                        ((const Muster__CreateTokenAnswer *)answer)->plain) == 0);
    asked->done = true;
}

static void ask(const char *method, const ProtobufCMessage *message, char *keep)
{
    struct asked asked = {.keep = keep};
    struct service_request request = {
        .method = protobuf_c_service_descriptor_get_method_by_name(&muster__coordinator__descriptor,
                                                                   method),
        .service = muster__coordinator__descriptor.short_name,
        .message = message,
        .token = town.admin,
        .idempotency_key = "",
        .deadline_ms = loop_now_ms(town.loop) + CALL_MS,
        .answer = answered,
        .arg = &asked,
    };
    service_start(coordinator_service(town.coordinator), &request);
    while (!asked.done)
        (void)loop_turn(town.loop);
}

static void make_token(const char *role, char ret[TOKEN_TEXT_MAX])
{
    Muster__CreateTokenRequest message = MUSTER__CREATE_TOKEN_REQUEST__INIT;
    message.name = message.role = (char *)(uintptr_t)role;
    message.tenant = (char *)(uintptr_t) "red";
    ask("CreateToken", &message.base, ret);
}

static void populate(void)
{
    char path[128];
    char program[] = "true";
    char *command[] = {program};
    Muster__SetTenantRequest tenant = MUSTER__SET_TENANT_REQUEST__INIT;
    Muster__JobSpec spec = MUSTER__JOB_SPEC__INIT;
    Muster__SubmitJobRequest submit = MUSTER__SUBMIT_JOB_REQUEST__INIT;
    (void)str_printf(path, sizeof(path), "%s/admin.token", dir);
    FILE *file = fopen(path, "re");
    insist(file && fgets(town.admin, TOKEN_TEXT_MAX, file));
    fclose(file);
    town.admin[strcspn(town.admin, "\n")] = 0;
    tenant.name = spec.tenant = (char *)(uintptr_t) "red";
    tenant.create = true;
    ask("SetTenant", &tenant.base, NULL);
    make_token("member", town.member);
    make_token("viewer", town.viewer);
    spec.name = (char *)(uintptr_t)secret_name;
    spec.command = command;
    spec.n_command = 1;
    submit.spec = &spec;
    ask("SubmitJob", &submit.base, NULL);
}

/* Life */

static void town_end(void)
{
    struct disk disk = disk_os();
    if (!dir[0])
        return;
    api_rest_free(town.api);
    coordinator_free(town.coordinator);
    store_close(town.store);
    loop_free(town.loop);
    insist(disk.remove_tree(disk.self, dir, NULL) == 0);
    dir[0] = 0;
}

static void town_begin(void)
{
    struct error err = {0};
    struct coordinator_options options = {
        .data_dir = dir, .rpc_url = "tcp://127.0.0.1:1", .version = "fuzz"};
    struct api_rest_options rest = {.address = "127.0.0.1:0"};
    (void)str_printf(dir, sizeof(dir), "%s/muster-fuzz-XXXXXX",
                     access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    insist(mkdtemp(dir));
    town = (struct town){.address.sin_family = AF_INET};
    town.env = (struct env){.clock = clock_os(),
                            .rng = rng_os(),
                            .disk = disk_os(),
                            .net = {.self = &town,
                                    .listen = listen_nowhere,
                                    .listener_url = url_of,
                                    .close_listener = close_nowhere}};
    insist(loop_new(clock_os(), &town.loop, &err) == 0);
    insist(store_memory_new(&town.store, NULL) == 0);
    insist(coordinator_new(&options, &town.env, town.loop, town.store, &town.coordinator, &err) ==
           0);
    insist(api_rest_new(&rest, &town.env, town.loop, town.coordinator, &town.api, &err) == 0);
    const char *port = strrchr(api_rest_url(town.api), ':');
    town.address.sin_port = htons((uint16_t)strtol(port + 1, NULL, 10));
    town.address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    populate();
}

/* One connection */

static void expand(const char *bytes, size_t size, struct buf *out)
{
    for (size_t at = 0; at < size; at++) {
        bool marked = at + 2 < size && bytes[at] == '{' && bytes[at + 2] == '}';
        const char *token = marked && bytes[at + 1] == 'A'   ? town.admin
                            : marked && bytes[at + 1] == 'M' ? town.member
                            : marked && bytes[at + 1] == 'V' ? town.viewer
                                                             : NULL;
        if (token)
            (void)buf_str(out, token);
        else
            (void)buf_char(out, bytes[at]);
        at += token ? 2 : 0;
    }
}

/* Until the other end closes or is silent, with turns of the loop in between. */
static void receive(int fd, struct buf *answer)
{
    char some[16 << 10];
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    for (int silent_ms = 0; silent_ms < SILENCE_MS; silent_ms += LOOK_MS) {
        (void)loop_turn(town.loop);
        if (poll(&ready, 1, LOOK_MS) <= 0)
            continue;
        ssize_t got = recv(fd, some, sizeof(some), 0);
        if (got <= 0 || buf_append(answer, some, (size_t)got) != 0)
            return;
        silent_ms = 0;
    }
}

static void converse(const struct buf *bytes, struct buf *answer)
{
    struct linger at_once = {.l_onoff = 1}; /* else each input would keep a port for a minute */
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    insist(fd >= 0);
    insist(connect(fd, (struct sockaddr *)&town.address, sizeof(town.address)) == 0);
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    for (size_t at = 0; at < bytes->size;) {
        ssize_t sent = send(fd, bytes->data + at, bytes->size - at, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EAGAIN)
            (void)loop_turn(town.loop);
        else if (sent <= 0)
            break; /* it hung up: what it said before counts */
        at += sent > 0 ? (size_t)sent : 0;
    }
    (void)shutdown(fd, SHUT_WR);
    receive(fd, answer);
    close(fd);
    (void)loop_turn(town.loop);
}

/* What a request says comes back in some refusals. */
static bool says(const void *bytes, size_t size, const char *text)
{
    return size > 0 && memmem(bytes, size, text, strlen(text));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf bytes, answer;
    if (!dir[0]) {
        town_begin();
        (void)atexit(town_end);
    } else if (++town.inputs == INPUTS_PER_TOWN) {
        town_end();
        town_begin();
    }
    buf_init(&bytes, INPUT_MAX_BYTES);
    buf_init(&answer, ANSWER_MAX_BYTES);
    expand((const char *)data, size, &bytes);
    converse(&bytes, &answer);
    if (answer.size > 0) {
        insist(str_starts(buf_cstr(&answer), "HTTP/1.1 "));
        insist(!str_starts(buf_cstr(&answer), "HTTP/1.1 500"));
    }
    bool stranger = !says(data, size, "{");
    insist(!stranger || says(data, size, secret_name) ||
           !says(answer.data, answer.size, secret_name));
    buf_fini(&bytes);
    buf_fini(&answer);
    return 0;
}
