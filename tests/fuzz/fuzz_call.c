/* Calls of a stranger, of tokens of each role and of nodes at a coordinator: whole frames or a
 * method with any payload, one after the other (tests/fuzz/door.h). Whatever comes, each call has
 * one answer; a call whose token may not make it is refused for that alone, so that nothing of its
 * payload is said or unpacked.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/assert.h"
#include "common/base/str.h"
#include "common/base/token.h"
#include "common/env/disk_os.h"
#include "common/rpc/message.h"
#include "coordinator/api_rpc/access.h"
#include "coordinator/api_rpc/method.h"
#include "coordinator/coordinator.h"
#include "coordinator/store/store_memory.h"
#include "proto/client.pb-c.h"
#include "tests/fuzz/door.h"
#include "tests/fuzz/fuzz.h"

enum { METHOD_BYTES = 64, SETTLE_MS = 3000, CALLS_MAX = 32, KEYED = 0x80 /* of the first byte */ };
enum who { NOBODY, UNKNOWN, ADMIN, AGENT, VIEWER, MEMBER, OPERATOR, PEOPLE };

struct town {
    struct door door;
    struct store *store;
    struct coordinator *coordinator;
    char tokens[PEOPLE][TOKEN_TEXT_MAX];
    unsigned roles[PEOPLE];
    bool keyed; /* a node is who has its key */
};

static char dir[64];
static struct disk disk;

/* Files of coordinators before are gone; in memory where that can be. */
static void make_dir(void)
{
    if (dir[0]) {
        insist(disk.remove_tree(disk.self, dir, NULL) == 0);
        insist(disk.make_dirs(disk.self, dir, 0700, NULL) == 0);
        return;
    }
    disk = disk_os();
    (void)str_printf(dir, sizeof(dir), "%s/muster-fuzz-XXXXXX",
                     access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    insist(mkdtemp(dir));
}

static void remove_dir(void)
{
    (void)disk.remove_tree(disk.self, dir, NULL);
}

static void read_token(const char *role, char ret[TOKEN_TEXT_MAX])
{
    char path[128];
    (void)str_printf(path, sizeof(path), "%s/%s.token", dir, role);
    FILE *file = fopen(path, "re");
    insist(file && fgets(ret, TOKEN_TEXT_MAX, file));
    ret[strcspn(ret, "\n")] = 0;
    fclose(file);
}

static void ask(struct town *town, const char *method, const ProtobufCMessage *message)
{
    Muster__RpcRequest envelope = MUSTER__RPC_REQUEST__INIT;
    struct buf packed;
    buf_init(&packed, 1 << 16);
    insist(rpc_message_pack(message, &packed, NULL) == 0);
    envelope.method = (char *)(uintptr_t)method;
    envelope.token = town->tokens[ADMIN];
    envelope.payload.data = (uint8_t *)packed.data;
    envelope.payload.len = packed.size;
    const struct door_request *request = door_ask(&town->door, DOOR_PEERS, &envelope);
    door_run(&town->door, SETTLE_MS);
    insist(request && request->answered && request->code == 0);
    buf_fini(&packed);
}

static void make_token(struct town *town, enum who who, const char *role, const char *tenant)
{
    Muster__CreateTokenRequest message = MUSTER__CREATE_TOKEN_REQUEST__INIT;
    ProtobufCMessage *made;
    struct error err;
    message.name = message.role = (char *)(uintptr_t)role;
    message.tenant = (char *)(uintptr_t)tenant;
    ask(town, "Coordinator.CreateToken", &message.base);
    insist(rpc_message_unpack(&muster__create_token_answer__descriptor, town->door.payload.data,
                              town->door.payload.size, &made, &err) == 0);
    insist(str_copy(town->tokens[who], TOKEN_TEXT_MAX,
                    ((Muster__CreateTokenAnswer *)made)->plain) == 0);
    town->roles[who] = access_role(role);
    rpc_message_free(made);
}

static void town_init(struct town *town, bool keyed)
{
    struct error err = {0};
    struct coordinator_options options = {
        .data_dir = dir, .rpc_url = "tcp://127.0.0.1:1", .version = "fuzz"};
    char pin[TOKEN_PIN_LENGTH + 1] = "";
    Muster__SetTenantRequest tenant = MUSTER__SET_TENANT_REQUEST__INIT;
    memset(town, 0, sizeof(*town));
    if (keyed)
        memset(pin, 'A', TOKEN_PIN_LENGTH);
    options.pin = pin;
    town->keyed = keyed;
    door_init(&town->door);
    town->door.env.disk = disk;
    insist(store_memory_new(&town->store, NULL) == 0);
    insist(coordinator_new(&options, &town->door.env, town->door.loop, town->store,
                           &town->coordinator, &err) == 0);
    (void)str_copy(town->tokens[UNKNOWN], TOKEN_TEXT_MAX, "mst_admin_00000000000000000000000000");
    read_token("admin", town->tokens[ADMIN]);
    read_token("agent", town->tokens[AGENT]);
    town->roles[ADMIN] = ACCESS_ADMIN;
    town->roles[AGENT] = ACCESS_AGENT;
    tenant.name = (char *)(uintptr_t) "red";
    tenant.create = true;
    ask(town, "Coordinator.SetTenant", &tenant.base);
    make_token(town, VIEWER, "viewer", "red");
    make_token(town, MEMBER, "member", "red");
    make_token(town, OPERATOR, "operator", "");
}

static void town_fini(struct town *town)
{
    door_run(&town->door, SETTLE_MS); /* whoever waits was answered before */
    for (int i = 0; i < town->door.count; i++)
        insist(town->door.requests[i].answered);
    coordinator_free(town->coordinator);
    store_close(town->store);
    door_fini(&town->door);
}

static const struct service_method *method_of(uint8_t number)
{
    int count = 0;
    while (service_methods[count].name)
        count++;
    return &service_methods[number % count];
}

/* A token that was good may have been revoked by a call before. */
static void check_refused(const struct town *town, const struct door_call *call, enum who who,
                          const struct service_method *method, const struct door_request *request)
{
    if (!request || method->roles == 0)
        return;
    if (town->keyed && method->roles == ACCESS_AGENT) {
        bool has_key = door_peer(call) <= DOOR_KEYS;
        insist(has_key || (request->answered && request->code == E_UNAUTHENTICATED));
        return;
    }
    if (method->roles & town->roles[who])
        return;
    insist(request->answered);
    insist(request->code == E_UNAUTHENTICATED ||
           (town->roles[who] && request->code == E_PERMISSION_DENIED));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct town town;
    struct door_call call;
    bool first = !dir[0];
    make_dir();
    if (first)
        (void)atexit(remove_dir);
    town_init(&town, size > 0 && data[0] & KEYED);
    for (int calls = 0; calls < CALLS_MAX && door_next(&data, &size, &call); calls++) {
        char name[METHOD_BYTES];
        enum who who = call.who % PEOPLE;
        const struct service_method *method = method_of(call.method);
        (void)str_printf(name, sizeof(name), "%s.%s", method->service, method->name);
        check_refused(&town, &call, who, method,
                      door_make(&town.door, &call, town.tokens[who], name));
    }
    town_fini(&town);
    return 0;
}
