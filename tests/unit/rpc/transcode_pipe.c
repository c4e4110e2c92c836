/* For check_proto_json.py: one line in, TYPE <tab> JSON <tab> HEX; one line out: the JSON packed,
 * in hex, <tab> the packed message as JSON. A failure is "! sentence" in its place.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/rpc/message.h"
#include "common/rpc/transcode.h"
#include "proto/client.pb-c.h"
#include "proto/node.pb-c.h"
#include "proto/rpc.pb-c.h"
#include "proto/worker.pb-c.h"

static const ProtobufCMessageDescriptor *const types[] = {
    &muster__rpc_request__descriptor,
    &muster__rpc_answer__descriptor,
    &muster__job_spec__descriptor,
    &muster__job__descriptor,
    &muster__event__descriptor,
    &muster__node__descriptor,
    &muster__list_jobs_answer__descriptor,
    &muster__get_metrics_answer__descriptor,
    &muster__get_logs_request__descriptor,
    &muster__node_report__descriptor,
    &muster__assignment__descriptor,
    &muster__board_request__descriptor,
    &muster__worker_join_answer__descriptor,
    &muster__commit_checkpoint_request__descriptor,
};

static const ProtobufCMessageDescriptor *type_of(const char *name)
{
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (strcmp(types[i]->short_name, name) == 0)
            return types[i];
    return NULL;
}

static void json_to_hex(const ProtobufCMessageDescriptor *type, const char *json)
{
    struct error err;
    struct buf wire = {0};
    ProtobufCMessage *message;
    if (transcode_from_json(json, strlen(json), type, &message, &err) != 0) {
        printf("! %s (%s)", err.text, err.field);
        return;
    }
    rpc_message_pack(message, &wire, &err);
    for (size_t i = 0; i < wire.size; i++)
        printf("%02x", (unsigned char)wire.data[i]);
    rpc_message_free(message);
    buf_fini(&wire);
}

static void hex_to_json(const ProtobufCMessageDescriptor *type, const char *hex)
{
    struct error err;
    struct buf wire = {0}, json = {0};
    unsigned byte;
    for (; sscanf(hex, "%2x", &byte) == 1; hex += 2)
        buf_char(&wire, (char)byte);
    ProtobufCMessage *message;
    int rc = rpc_message_unpack(type, buf_cstr(&wire), wire.size, &message, &err);
    if (rc == 0) {
        rc = transcode_to_json(message, NULL, &json, &err);
        rpc_message_free(message);
    }
    if (rc == 0)
        printf("%s", buf_cstr(&json));
    else
        printf("! %s", err.text);
    buf_fini(&wire);
    buf_fini(&json);
}

int main(void)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    while ((length = getline(&line, &room, stdin)) > 0) {
        line[length - 1] = '\0';
        char *json = strchr(line, '\t');
        char *hex = json ? strchr(json + 1, '\t') : NULL;
        if (!hex)
            return 1;
        *json++ = *hex++ = '\0';
        const ProtobufCMessageDescriptor *type = type_of(line);
        if (!type)
            return 1;
        json_to_hex(type, json);
        putchar('\t');
        hex_to_json(type, hex);
        putchar('\n');
    }
    free(line);
    return 0;
}
