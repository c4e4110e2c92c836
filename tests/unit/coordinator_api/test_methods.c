/* Every method of every service, taken from the table so that a new one cannot be forgotten: who
 * may call it, what it makes of nonsense, what it tells of another tenant. */
#include <criterion/criterion.h>
#include <string.h>

#include "coordinator/api_rpc/access.h"
#include "coordinator/api_rpc/method.h"
#include "tests/unit/coordinator_api/access_world.h"

TestSuite(methods, .init = access_init, .fini = access_fini);

/* Which roles the table lets in, told by the code of the refusal alone: a message that makes no
 * sense is refused for what it says only to those who may call. */
static void try_method(const struct service_method *method)
{
    const ProtobufCServiceDescriptor *service = strcmp(method->service, "Nodes") == 0
                                                    ? &muster__nodes__descriptor
                                                    : &muster__coordinator__descriptor;
    const ProtobufCMethodDescriptor *descriptor =
        protobuf_c_service_descriptor_get_method_by_name(service, method->name);
    const struct {
        const char *token;
        unsigned role;
    } callers[] = {{NULL, 0}, {"", 0}, {"nonsense", 0},
                   {"mst_admin_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", 0},
                   {"mst_worker_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", 0},
                   {made.revoked, 0}, {made.expired, 0}, {world.admin, ACCESS_ADMIN},
                   {
                       made.operator,
                       ACCESS_OPERATOR },
                       {made.red, ACCESS_MEMBER},
                       {made.viewer, ACCESS_VIEWER},
                       {world.agent, ACCESS_AGENT},
    };
    char storage[512] = {0};
    cr_assert_leq(descriptor->input->sizeof_message, sizeof(storage));
    ProtobufCMessage *message = (void *)storage;
    descriptor->input->message_init(message);
    for (size_t i = 0; i < sizeof(callers) / sizeof(*callers); i++) {
        struct answer answer;
        struct call call = {.service = service,
                            .method = method->name,
                            .message = message,
                            .token = callers[i].token,
                            .timeout_ms = 300};
        call_now(&world, &call, &answer);
        int code = answer.err.code;
        if (method->roles == 0 || (callers[i].role & method->roles))
            cr_assert(code != E_UNAUTHENTICATED && code != E_PERMISSION_DENIED,
                      "%s is refused to role %u: %s", method->name, callers[i].role,
                      answer.err.text);
        else
            cr_assert_eq(code, callers[i].role ? E_PERMISSION_DENIED : E_UNAUTHENTICATED,
                         "%s with token %zu: %s %s", method->name, i, error_name(code),
                         answer.err.text);
        answer_fini(&answer);
    }
}

Test(methods, every_method_lets_in_whom_the_table_says_and_nobody_else)
{
    int count = 0;
    for (const struct service_method *method = service_methods; method->name; method++, count++)
        try_method(method);
    cr_assert_eq((unsigned)count,
                 muster__coordinator__descriptor.n_methods + muster__nodes__descriptor.n_methods,
                 "a method of the schema is not in the table");
}

/* Whatever the fields hold: an answer, the same when repeated, and never our mistake. */
static void fill_field(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field, bool large)
{
    static char many[20001];
    void *at = (char *)message + field->offset;
    memset(many, 'x', sizeof(many) - 1);
    if (field->label == PROTOBUF_C_LABEL_REPEATED)
        return;
    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING:
        *(char **)at = large ? many : (char *)"\xff\"\n{$(reboot)}'; DROP TABLE jobs;--";
        return;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_ENUM:
        *(uint32_t *)at = large ? UINT32_MAX : 1;
        return;
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_INT64:
        *(uint64_t *)at = large ? UINT64_MAX : 1;
        return;
    case PROTOBUF_C_TYPE_BOOL:
        *(protobuf_c_boolean *)at = large;
        return;
    case PROTOBUF_C_TYPE_DOUBLE:
        *(double *)at = large ? 1e308 : -1;
        return;
    case PROTOBUF_C_TYPE_BYTES:
        *(ProtobufCBinaryData *)at = (ProtobufCBinaryData){sizeof(many) - 1, (uint8_t *)many};
        return;
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_MESSAGE:
        return;
    }
}

static void try_nonsense(const struct service_method *method, bool large)
{
    bool nodes = strcmp(method->service, "Nodes") == 0;
    const ProtobufCServiceDescriptor *service =
        nodes ? &muster__nodes__descriptor : &muster__coordinator__descriptor;
    const ProtobufCMethodDescriptor *descriptor =
        protobuf_c_service_descriptor_get_method_by_name(service, method->name);
    char storage[512] = {0};
    ProtobufCMessage *message = (void *)storage;
    descriptor->input->message_init(message);
    for (unsigned i = 0; i < descriptor->input->n_fields; i++)
        fill_field(message, &descriptor->input->fields[i], large);
    int codes[2];
    for (int i = 0; i < 2; i++) {
        struct answer answer;
        struct call call = {.service = service,
                            .method = method->name,
                            .message = message,
                            .token = nodes ? world.agent : world.admin,
                            .key = large ? "key" : NULL,
                            .timeout_ms = 300};
        call_now(&world, &call, &answer);
        codes[i] = answer.err.code;
        cr_assert_neq(codes[i], E_INTERNAL, "%s: %s", method->name, answer.err.text);
        answer_fini(&answer);
    }
    cr_assert_eq(codes[0], codes[1], "%s answers a repeat with %s, not %s", method->name,
                 error_name(codes[1]), error_name(codes[0]));
}

Test(methods, every_method_answers_nonsense_and_does_so_again)
{
    for (const struct service_method *method = service_methods; method->name; method++) {
        try_nonsense(method, false);
        try_nonsense(method, true);
    }
}

/* Every field of every method that could name something, with another tenant's id and name in it:
 * whatever is answered, it tells nothing that the caller did not say himself. */
static void name_theirs(const struct service_method *method, const char *theirs, const char *hidden)
{
    const ProtobufCMethodDescriptor *descriptor = protobuf_c_service_descriptor_get_method_by_name(
        &muster__coordinator__descriptor, method->name);
    static uint8_t packed[1 << 20];
    char *list[] = {(char *)theirs};
    for (unsigned i = 0; i < descriptor->input->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &descriptor->input->fields[i];
        char storage[512] = {0};
        ProtobufCMessage *message = (void *)storage;
        struct answer answer;
        if (field->type != PROTOBUF_C_TYPE_STRING)
            continue;
        descriptor->input->message_init(message);
        if (field->label == PROTOBUF_C_LABEL_REPEATED) {
            *(char ***)(storage + field->offset) = list;
            *(size_t *)(storage + field->quantifier_offset) = 1;
        } else {
            *(char **)(storage + field->offset) = (char *)theirs;
        }
        struct call call = {.service = &muster__coordinator__descriptor,
                            .method = method->name,
                            .message = message,
                            .token = made.blue,
                            .timeout_ms = 300};
        call_now(&world, &call, &answer);
        size_t size = answer.message ? protobuf_c_message_pack(answer.message, packed) : 0;
        cr_assert(!answer.message || !memmem(packed, size, hidden, strlen(hidden)),
                  "%s with %s = %s tells %s", method->name, field->name, theirs, hidden);
        cr_assert(!strstr(answer.err.text, hidden) && !strstr(answer.err.hint, hidden),
                  "%s with %s = %s: %s", method->name, field->name, theirs, answer.err.text);
        answer_fini(&answer);
    }
}

Test(methods, no_method_tells_of_another_tenant_by_id_or_by_name)
{
    for (const struct service_method *method = service_methods; method->name; method++) {
        if (strcmp(method->service, "Coordinator") != 0)
            continue;
        name_theirs(method, made.red_job, "red-secret");
        name_theirs(method, "red-secret", made.red_job);
        name_theirs(method, "red", "red-secret");
    }
    struct answer answer;
    Muster__GetJobRequest get = MUSTER__GET_JOB_REQUEST__INIT;
    get.id = made.red_job;
    ask("GetJob", &get, made.red, &answer);
    cr_assert_neq(((Muster__Job *)answer.message)->state, MUSTER__JOB__STATE__cancelled);
    answer_fini(&answer);
}
