#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include "common/rpc/frame.h"
#include "proto/client.pb-c.h"
#include "proto/node.pb-c.h"

static void pack_request(struct buf *out, const char *method, size_t payload)
{
    Muster__RpcRequest request = MUSTER__RPC_REQUEST__INIT;
    request.method = (char *)(uintptr_t)method;
    request.id = 7;
    request.token = (char *)(uintptr_t) "t";
    request.payload.len = payload;
    request.payload.data = calloc(1, payload + 1);
    cr_assert_eq(frame_pack(&request.base, out, NULL), 0);
    free(request.payload.data);
}

Test(frame, a_request_comes_back_as_it_was)
{
    struct buf out;
    buf_init(&out, FRAME_MAX_BYTES);
    pack_request(&out, "Coordinator.GetJob", 10);
    Muster__RpcRequest *request;
    cr_assert_eq(frame_unpack_request(out.data, out.size, &request, NULL), 0);
    cr_assert_str_eq(request->method, "Coordinator.GetJob");
    cr_assert_eq(request->id, 7);
    cr_assert_eq(request->payload.len, 10);
    rpc_message_free(request);
    buf_fini(&out);
}

Test(frame, golden_bytes_of_the_header)
{
    struct buf out = {0};
    Muster__RpcRequest request = MUSTER__RPC_REQUEST__INIT;
    request.id = 1;
    cr_assert_eq(frame_pack(&request.base, &out, NULL), 0);
    cr_assert_eq(out.size, 10);
    cr_assert_arr_eq(out.data, "MST1\x02\x00\x00\x00\x10\x01", 10);
    buf_fini(&out);
}

Test(frame, the_largest_payload_fits_and_one_more_byte_does_not)
{
    struct buf out;
    buf_init(&out, 2 * FRAME_MAX_BYTES);
    Muster__RpcRequest *request;
    struct error err;
    pack_request(&out, "A.B", RPC_PAYLOAD_MAX_BYTES);
    cr_assert_eq(frame_unpack_request(out.data, out.size, &request, &err), 0);
    rpc_message_free(request);
    buf_clear(&out);
    pack_request(&out, "A.B", RPC_PAYLOAD_MAX_BYTES + 1);
    cr_assert_eq(frame_unpack_request(out.data, out.size, &request, &err), E_RESOURCE_EXHAUSTED);
    buf_fini(&out);
}

Test(frame, every_cut_is_refused)
{
    struct buf out = {0};
    pack_request(&out, "Coordinator.GetJob", 20);
    Muster__RpcRequest *request;
    for (size_t size = 0; size < out.size; size++) {
        char *exact = malloc(size + 1); /* so that a read beyond the cut is seen by sanitizers */
        memcpy(exact, out.data, size);
        struct error err;
        cr_assert_eq(frame_unpack_request(exact, size, &request, &err), E_INVALID_ARGUMENT);
        cr_assert_neq(err.text[0], '\0');
        free(exact);
    }
    buf_char(&out, 'x');
    cr_assert_eq(frame_unpack_request(out.data, out.size, &request, NULL), E_INVALID_ARGUMENT);
    buf_fini(&out);
}

Test(frame, another_version_is_named)
{
    struct buf out = {0};
    pack_request(&out, "A.B", 0);
    out.data[3] = '2';
    struct error err;
    Muster__RpcRequest *request;
    cr_assert_eq(frame_unpack_request(out.data, out.size, &request, &err), E_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(err.text, "version '2'"), "%s", err.text);
    buf_fini(&out);
}

Test(frame, names_beyond_their_limits_are_refused)
{
    char method[FRAME_METHOD_MAX + 2];
    memset(method, 'm', sizeof(method) - 1);
    method[sizeof(method) - 1] = '\0';
    struct buf out = {0};
    pack_request(&out, method, 0);
    Muster__RpcRequest *request;
    cr_assert_eq(frame_unpack_request(out.data, out.size, &request, NULL), E_INVALID_ARGUMENT);
    buf_clear(&out);
    method[FRAME_METHOD_MAX] = '\0';
    pack_request(&out, method, 0);
    cr_assert_eq(frame_unpack_request(out.data, out.size, &request, NULL), 0);
    rpc_message_free(request);
    buf_fini(&out);
}

Test(message, few_bytes_cannot_ask_for_much_memory)
{
    /* Field 6 (logs) as an empty message, two bytes each: 1.5 million structs of 72 bytes. */
    size_t size = 3 << 20;
    uint8_t *bytes = malloc(size);
    for (size_t i = 0; i < size; i += 2) {
        bytes[i] = 6 << 3 | 2;
        bytes[i + 1] = 0;
    }
    struct error err;
    ProtobufCMessage *message;
    cr_assert_eq(rpc_message_unpack(&muster__node_report__descriptor, bytes, size, &message, &err),
                 E_RESOURCE_EXHAUSTED);
    cr_assert_eq(rpc_message_unpack(&muster__node_report__descriptor, bytes, 2000, &message, &err),
                 0);
    rpc_message_free(message);
    free(bytes);
}

Test(message, few_bytes_cannot_ask_for_many_parts)
{
    enum { WORDS = 1000 };
    uint8_t bytes[2 * WORDS]; /* JobSpec.command: empty texts of two bytes each */
    for (int i = 0; i < WORDS; i++) {
        bytes[2 * i] = 3 << 3 | 2;
        bytes[2 * i + 1] = 0;
    }
    struct error err;
    ProtobufCMessage *message;
    const ProtobufCMessageDescriptor *type = &muster__job_spec__descriptor;
    struct rpc_bytes from = {bytes, sizeof(bytes)};
    cr_assert_eq(rpc_message_unpack_parts(type, &from, WORDS, &message, &err),
                 E_RESOURCE_EXHAUSTED);
    cr_assert_str_eq(err.text, "JobSpec has more than 1000 parts");
    cr_assert_eq(rpc_message_unpack_parts(type, &from, WORDS + 64, &message, &err), 0);
    rpc_message_free(message);
}

Test(message, text_that_is_not_utf8_is_refused_and_named)
{
    static const uint8_t good[] = {0x0a, 3, 0xe2, 0x82, 0xac}, bad[] = {0x0a, 3, 0xe2, 0x82, 'x'};
    struct error err;
    ProtobufCMessage *message;
    cr_assert_eq(rpc_message_unpack(&muster__get_job_request__descriptor, good, sizeof(good),
                                    &message, &err),
                 0);
    rpc_message_free(message);
    cr_assert_eq(
        rpc_message_unpack(&muster__get_job_request__descriptor, bad, sizeof(bad), &message, &err),
        E_INVALID_ARGUMENT);
    cr_assert_str_eq(err.field, "id");
    /* nested and repeated: NodeReport.workers[0].job */
    static const uint8_t nested[] = {0x22, 3, 0x0a, 1, 0xff};
    cr_assert_eq(rpc_message_unpack(&muster__node_report__descriptor, nested, sizeof(nested),
                                    &message, &err),
                 E_INVALID_ARGUMENT);
    cr_assert_str_eq(err.field, "job");
}

Test(message, a_copy_is_deep)
{
    Muster__GetJobRequest request = MUSTER__GET_JOB_REQUEST__INIT;
    char id[] = "job-1";
    request.id = id;
    Muster__GetJobRequest *copy = (Muster__GetJobRequest *)rpc_message_copy(&request.base);
    id[0] = 'x';
    cr_assert_str_eq(copy->id, "job-1");
    rpc_message_free(copy);
}
