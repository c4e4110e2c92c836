#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include "common/base/tree_write.h"
#include "common/rpc/base64.h"
#include "common/rpc/message.h"
#include "common/rpc/transcode.h"
#include "proto/client.pb-c.h"
#include "proto/node.pb-c.h"

static int from_json(const char *json, const ProtobufCMessageDescriptor *type, void *ret,
                     struct error *err)
{
    return transcode_from_json(json, strlen(json), type, ret, err);
}

/* The message `json` stands for, in JSON again. */
static char *round_trip(const char *json, const ProtobufCMessageDescriptor *type, bool defaults)
{
    struct error err;
    ProtobufCMessage *message;
    cr_assert_eq(from_json(json, type, &message, &err), 0, "%s", err.text);
    struct buf out = {0};
    struct transcode_output_options options = {.defaults = defaults};
    cr_assert_eq(transcode_to_json(message, &options, &out, &err), 0, "%s", err.text);
    rpc_message_free(message);
    return buf_take(&out, NULL);
}

static void comes_back(const char *json, const ProtobufCMessageDescriptor *type)
{
    char *back = round_trip(json, type, false);
    cr_expect_str_eq(back, json);
    free(back);
}

static void becomes(const char *json, const char *wanted, const ProtobufCMessageDescriptor *type)
{
    char *back = round_trip(json, type, false);
    cr_expect_str_eq(back, wanted);
    free(back);
}

static void refused(const char *json, const ProtobufCMessageDescriptor *type, int code,
                    const char *text)
{
    struct error err = {0};
    ProtobufCMessage *message;
    cr_expect_eq(from_json(json, type, &message, &err), code, "%s", json);
    cr_expect_not_null(strstr(err.text, text), "%s: \"%s\" lacks \"%s\"", json, err.text, text);
}

Test(transcode, every_kind_of_field_comes_back)
{
    comes_back("{\"job\":\"j\",\"uid\":\"18446744073709551615\",\"state\":\"joined\","
               "\"pid\":\"-9223372036854775808\",\"aware\":true,\"exit\":{\"code\":-2147483648,"
               "\"text\":\"\\u0001 \\\"quoted\\\" \xe2\x82\xac\"},\"lost_ranks\":[0,4294967295]}",
               &muster__worker_status__descriptor);
    comes_back("{\"name\":\"n\",\"command\":[\"a\",\"\"],\"nodes\":{\"min\":1,\"max\":2},"
               "\"resources\":{\"cpus\":0.5},\"constraints\":{\"a\":\"1\",\"b\":\"\"},"
               "\"env\":{\"K\":\"v\"}}",
               &muster__job_spec__descriptor);
    comes_back("{\"job\":\"j\",\"value\":\"AP+A\",\"set\":true}",
               &muster__board_request__descriptor);
    comes_back(
        "{\"jobs\":[{\"id\":\"a\",\"state\":\"running\",\"workers\":[{\"uid\":\"1\"},{}]},{}]}",
        &muster__list_jobs_answer__descriptor);
    comes_back("{}", &muster__job__descriptor);
}

Test(transcode, defaults_are_written_on_request)
{
    char *json = round_trip("{}", &muster__worker__descriptor, true);
    cr_assert_str_eq(json, "{\"uid\":\"0\",\"rank\":0,\"local_rank\":0,\"node\":\"\","
                           "\"state\":\"unknown\",\"pid\":null,\"step\":null,"
                           "\"generation\":\"0\",\"reports_dropped\":\"0\"}");
    free(json);
    json = round_trip("{}", &muster__board_answer__descriptor, true);
    cr_assert_str_eq(json, "{\"value\":\"\",\"found\":false}");
    free(json);
    json = round_trip("{\"name\":\"n\"}", &muster__node__descriptor, true);
    cr_assert_not_null(strstr(json, "\"labels\":{},\"gpus\":[]"));
    cr_assert_null(strstr(json, "reason"));
    free(json);
}

Test(transcode, an_optional_field_is_null_or_a_value_which_may_be_0)
{
    const ProtobufCMessageDescriptor *type = &muster__job__descriptor;
    comes_back("{\"step\":\"0\",\"loss\":0.0}", type);
    becomes("{\"step\":null,\"loss\":null}", "{}", type);
    becomes("{\"tokensPerSecond\":1}", "{\"tokens_per_second\":1.0}", type);
    char *json = round_trip("{\"step\":0}", type, true);
    cr_assert_not_null(strstr(json, "\"step\":\"0\",\"loss\":null,"), "%s", json);
    free(json);
}

Test(transcode, numbers_are_taken_as_proto3_takes_them)
{
    const ProtobufCMessageDescriptor *type = &muster__worker__descriptor;
    becomes("{\"uid\":12}", "{\"uid\":\"12\"}", type);
    becomes("{\"rank\":\"12\"}", "{\"rank\":12}", type);
    becomes("{\"rank\":1e3,\"pid\":-2.0}", "{\"rank\":1000,\"pid\":\"-2\"}", type);
    becomes("{\"rank\":\"1e3\"}", "{\"rank\":1000}", type);
    becomes("{\"state\":3}", "{\"state\":\"joined\"}", type);
    becomes("{\"state\":99}", "{\"state\":99}", type);
    becomes("{\"localRank\":1}", "{\"local_rank\":1}", type);
    becomes("{\"node\":null,\"exit\":null}", "{}", type);
    becomes("{\"memory_bytes\":\"18446744073709551615\",\"cpus\":\"2.5\"}",
            "{\"cpus\":2.5,\"memory_bytes\":\"18446744073709551615\"}", &muster__node__descriptor);
    refused("{\"rank\":-1}", type, E_OUT_OF_RANGE, "0..4294967295");
    refused("{\"rank\":4294967296}", type, E_OUT_OF_RANGE, "line 1, column 2");
    refused("{\"rank\":1.5}", type, E_INVALID_ARGUMENT, "a whole number");
    refused("{\"rank\":\"\"}", type, E_INVALID_ARGUMENT, "a whole number");
    refused("{\"rank\":\" 1\"}", type, E_INVALID_ARGUMENT, "a whole number");
    refused("{\"rank\":\"0x10\"}", type, E_INVALID_ARGUMENT, "a whole number");
    refused("{\"pid\":\"9223372036854775808\"}", type, E_OUT_OF_RANGE, "9223372036854775807");
    refused("{\"uid\":\"18446744073709551616\"}", type, E_INVALID_ARGUMENT, "whole number");
    refused("{\"rank\":true}", type, E_INVALID_ARGUMENT, "found a boolean");
}

Test(transcode, doubles_may_be_infinite)
{
    const ProtobufCMessageDescriptor *type = &muster__metric_point__descriptor;
    comes_back("{\"value\":\"Infinity\"}", type);
    comes_back("{\"value\":\"-Infinity\"}", type);
    comes_back("{\"value\":\"NaN\"}", type);
    comes_back("{\"value\":0.1}", type);
    becomes("{\"value\":3}", "{\"value\":3.0}", type);
    becomes("{\"value\":\"1e-7\"}", "{\"value\":1e-07}", type);
    refused("{\"value\":\"inf\"}", type, E_INVALID_ARGUMENT, "a number");
}

Test(transcode, bytes_take_both_alphabets)
{
    const ProtobufCMessageDescriptor *type = &muster__board_answer__descriptor;
    becomes("{\"value\":\"-_8\"}", "{\"value\":\"+/8=\"}", type);
    becomes("{\"value\":\"+/8=\"}", "{\"value\":\"+/8=\"}", type);
    becomes("{\"value\":\"+/8\"}", "{\"value\":\"+/8=\"}", type);
    refused("{\"value\":\"a\"}", type, E_INVALID_ARGUMENT, "base64");
    refused("{\"value\":\"a=bc\"}", type, E_INVALID_ARGUMENT, "base64");
    refused("{\"value\":\"====\"}", type, E_INVALID_ARGUMENT, "base64");
    refused("{\"value\":[1]}", type, E_INVALID_ARGUMENT, "found a list");
}

Test(transcode, base64_of_every_length)
{
    unsigned char data[64], back[80];
    char text[BASE64_LENGTH(64) + 1];
    for (size_t size = 0; size <= sizeof(data); size++) {
        for (size_t i = 0; i < size; i++)
            data[i] = (unsigned char)(i * 37 + size);
        base64_encode(data, size, text);
        cr_assert_eq(strlen(text), BASE64_LENGTH(size));
        size_t got;
        cr_assert_eq(base64_decode(text, back, &got), 0);
        cr_assert_eq(got, size);
        cr_assert_arr_eq(back, data, size);
    }
}

Test(transcode, unknown_fields_are_named_with_line_and_nearest)
{
    struct error err;
    ProtobufCMessage *message;
    const char *json = "{\n  \"name\": \"x\",\n  \"nodes\": {\"mim\": 1}\n}";
    cr_assert_eq(from_json(json, &muster__job_spec__descriptor, &message, &err),
                 E_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(err.text, "line 3, column 13"), "%s", err.text);
    cr_assert_not_null(strstr(err.text, "unknown key \"mim\""), "%s", err.text);
    cr_assert_str_eq(err.field, "nodes.mim");
    cr_assert_not_null(strstr(err.hint, "did you mean min?"), "%s", err.hint);
    cr_assert_eq(
        from_json("{\"elephant\":1}", &muster__set_node_request__descriptor, &message, &err),
        E_INVALID_ARGUMENT);
    cr_assert_str_eq(err.hint, "known: name, action, reason");
}

Test(transcode, wrong_shapes_name_their_place)
{
    const ProtobufCMessageDescriptor *spec = &muster__job_spec__descriptor;
    refused("[]", spec, E_INVALID_ARGUMENT, "expected a map, found a list");
    refused("{\"command\":\"ls\"}", spec, E_INVALID_ARGUMENT, "expected a list");
    refused("{\"command\":[\"ls\",1]}", spec, E_INVALID_ARGUMENT, "expected text");
    refused("{\"command\":[null]}", spec, E_INVALID_ARGUMENT, "found null");
    refused("{\"env\":[]}", spec, E_INVALID_ARGUMENT, "expected a map");
    refused("{\"env\":{\"A\":null}}", spec, E_INVALID_ARGUMENT, "\"A\" has no value");
    refused("{\"nodes\":3}", spec, E_INVALID_ARGUMENT, "expected a map");
    refused("{\"workers_per_node\":1,\"workersPerNode\":2}", spec, E_INVALID_ARGUMENT,
            "\"workers_per_node\" is given twice");
    refused("{\"aware\":1}", &muster__worker_status__descriptor, E_INVALID_ARGUMENT,
            "true or false");
    struct error err;
    ProtobufCMessage *message;
    cr_assert_neq(from_json("{\"command\":[\"ls\",1]}", spec, &message, &err), 0);
    cr_assert_str_eq(err.field, "command[1]");
    cr_assert_neq(from_json("{\"state\":\"joinde\"}", &muster__worker__descriptor, &message, &err),
                  0);
    cr_assert_str_eq(err.hint, "did you mean joined?");
    cr_assert_not_null(strstr(err.text, "unknown, assigned, starting"), "%s", err.text);
}

Test(transcode, lenient_takes_numbers_where_text_is_wanted)
{
    struct arena arena = {0};
    struct tree *tree;
    const char *yaml = "command: ls\nenv: {A: 1, B: true, C: 0.5, D: text}\n";
    struct tree_input input = {.text = yaml, .size = strlen(yaml)};
    cr_assert_eq(tree_parse_yaml(&input, &arena, &tree, NULL), 0);
    ProtobufCMessage *message;
    cr_assert_eq(transcode_from_tree(tree, &muster__job_spec__descriptor, NULL, &message, NULL),
                 E_INVALID_ARGUMENT);
    cr_assert_eq(transcode_from_tree(tree, &muster__job_spec__descriptor,
                                     &(struct transcode_input_options){.lenient = true}, &message,
                                     NULL),
                 0);
    struct buf out = {0};
    transcode_to_json(message, NULL, &out, NULL);
    cr_assert_str_eq(buf_cstr(&out), "{\"command\":[\"ls\"],\"env\":{\"A\":\"1\",\"B\":\"true\","
                                     "\"C\":\"0.5\",\"D\":\"text\"}}");
    buf_fini(&out);
    rpc_message_free(message);
    arena_fini(&arena);
}

static void both_ways(const ProtobufCMessage *message, bool defaults)
{
    struct transcode_output_options options = {.defaults = defaults};
    struct arena arena;
    struct tree *tree;
    struct buf straight = {0}, by_tree = {0};
    arena_init(&arena, 1 << 20);
    cr_assert_eq(transcode_to_json(message, &options, &straight, NULL), 0);
    cr_assert_eq(transcode_to_tree(message, &options, &arena, &tree, NULL), 0);
    cr_assert_eq(tree_write_json(tree, TREE_COMPACT, &by_tree, NULL), 0);
    cr_assert_str_eq(buf_cstr(&straight), buf_cstr(&by_tree));
    arena_fini(&arena);
    buf_fini(&straight);
    buf_fini(&by_tree);
}

Test(transcode, json_is_the_same_with_and_without_a_tree)
{
    static const struct {
        const char *json;
        const ProtobufCMessageDescriptor *type;
    } messages[] = {
        {"{}", &muster__job__descriptor},
        {"{}", &muster__job_spec__descriptor},
        {"{\"id\":\"j1\",\"loss\":0.1234567890123456789,\"step\":\"18446744073709551615\","
         "\"exit_code\":-1,\"spec\":{\"command\":[\"a\\u0001\\\"\\\\\\u007f\",\"\xe2\x82\xac\"],"
         "\"env\":"
         "{\"b\":\"2\",\"a\":\"1\"}},\"ledger\":{\"queue\":1e300,\"start\":\"-Infinity\","
         "\"hang\":\"NaN\",\"total\":0.30000000000000004,\"rework\":-1e-7,\"recovery\":-0.0,"
         "\"checkpoint\":-12,\"productive\":1073741824}}",
         &muster__job__descriptor},
        {"{\"name\":\"n\",\"state\":\"ready\",\"cpus\":2.5,\"labels\":{\"z\":\"\\n\",\"a\":\"\"},"
         "\"gpus\":[{\"index\":1},{\"uuid\":\"u\"}],\"jobs\":[\"x\",\"y\"]}",
         &muster__node__descriptor},
        {"{\"job\":\"j\",\"value\":\"AAEC/w==\"}", &muster__board_request__descriptor},
    };
    for (size_t i = 0; i < sizeof(messages) / sizeof(*messages); i++) {
        ProtobufCMessage *message;
        struct error err = {0};
        cr_assert_eq(from_json(messages[i].json, messages[i].type, &message, &err), 0, "%s",
                     err.text);
        both_ways(message, false);
        both_ways(message, true);
        rpc_message_free(message);
    }
    Muster__Job broken = MUSTER__JOB__INIT;
    char bytes[] = "\xff\xfe";
    broken.id = bytes;
    struct buf out = {0};
    cr_assert_eq(transcode_to_json(&broken.base, NULL, &out, NULL), E_INVALID_ARGUMENT);
    buf_fini(&out);
}

Test(transcode, what_was_read_survives_the_wire)
{
    ProtobufCMessage *message, *again;
    const char *json = "{\"name\":\"n\",\"state\":\"ready\",\"cpus\":2.5,\"labels\":{\"b\":\"2\","
                       "\"a\":\"1\"},\"gpus\":[{\"index\":1},{\"uuid\":\"u\"}],\"jobs\":[\"x\"]}";
    cr_assert_eq(from_json(json, &muster__node__descriptor, &message, NULL), 0);
    struct buf wire = {0}, out = {0};
    cr_assert_eq(rpc_message_pack(message, &wire, NULL), 0);
    cr_assert_eq(rpc_message_unpack(message->descriptor, wire.data, wire.size, &again, NULL), 0);
    cr_assert_eq(transcode_to_json(again, NULL, &out, NULL), 0);
    cr_assert_str_eq(buf_cstr(&out),
                     "{\"name\":\"n\",\"state\":\"ready\",\"cpus\":2.5,\"labels\":{\"a\":\"1\","
                     "\"b\":\"2\"},\"gpus\":[{\"index\":1},{\"uuid\":\"u\"}],\"jobs\":[\"x\"]}");
    rpc_message_free(message);
    rpc_message_free(again);
    buf_fini(&wire);
    buf_fini(&out);
}
