#include "common/rpc/message.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/str.h"

struct budget {
    size_t left, parts;
    bool exceeded;
};

/* Without a budget (allocator_data NULL) nothing is counted: that is the freeing side. */
static void *counted_alloc(void *data, size_t size)
{
    struct budget *budget = data;
    if (budget && (size > budget->left || budget->parts == 0)) {
        budget->exceeded = true;
        return NULL;
    }
    if (budget) {
        budget->left -= size;
        budget->parts--;
    }
    return malloc(size ? size : 1);
}

static void counted_free(void *data, void *memory)
{
    (void)data;
    free(memory);
}

static int check_message_text(const ProtobufCMessage *message, struct error *err);

static int check_text(const ProtobufCFieldDescriptor *field, const char *text, struct error *err)
{
    if (!text || utf8_valid(text, strlen(text)))
        return 0;
    error_set(err, E_INVALID_ARGUMENT, "\"%s\" has text that is not UTF-8", field->name);
    error_field(err, "%s", field->name);
    return E_INVALID_ARGUMENT;
}

static int check_member(const ProtobufCFieldDescriptor *field, const char *member, size_t count,
                        struct error *err)
{
    bool repeated = field->label == PROTOBUF_C_LABEL_REPEATED;
    const void *const *items = repeated ? *(const void *const *const *)(const void *)member
                                        : (const void *const *)(const void *)member;
    for (size_t i = 0; i < count; i++) {
        int rc = 0;
        if (field->type == PROTOBUF_C_TYPE_STRING)
            rc = check_text(field, items[i], err);
        else if (items[i])
            rc = check_message_text(items[i], err);
        if (rc)
            return rc;
    }
    return 0;
}

/* proto3: every string is UTF-8. protobuf-c leaves this to its caller. */
static int check_message_text(const ProtobufCMessage *message, struct error *err)
{
    const char *base = (const char *)message;
    for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
        if (field->type != PROTOBUF_C_TYPE_STRING && field->type != PROTOBUF_C_TYPE_MESSAGE)
            continue;
        size_t count = 1;
        if (field->label == PROTOBUF_C_LABEL_REPEATED)
            memcpy(&count, base + field->quantifier_offset, sizeof(count));
        int rc = check_member(field, base + field->offset, count, err);
        if (rc)
            return rc;
    }
    return 0;
}

int rpc_message_unpack(const ProtobufCMessageDescriptor *type, const void *bytes, size_t size,
                       ProtobufCMessage **ret, struct error *err)
{
    if (size > RPC_PAYLOAD_MAX_BYTES)
        return error_set(err, E_RESOURCE_EXHAUSTED,
                         "a message of %zu bytes is above the %d allowed", size,
                         RPC_PAYLOAD_MAX_BYTES);
    return rpc_envelope_unpack(type, bytes, size, ret, err);
}

int rpc_envelope_unpack(const ProtobufCMessageDescriptor *type, const void *bytes, size_t size,
                        ProtobufCMessage **ret, struct error *err)
{
    return rpc_message_unpack_parts(type, &(struct rpc_bytes){bytes, size}, SIZE_MAX, ret, err);
}

int rpc_message_unpack_parts(const ProtobufCMessageDescriptor *type, const struct rpc_bytes *from,
                             size_t parts_max, ProtobufCMessage **ret, struct error *err)
{
    struct budget budget = {.left = RPC_UNPACKED_MAX_BYTES, .parts = parts_max};
    const void *bytes = from->data;
    size_t size = from->size;
    ProtobufCAllocator allocator = {counted_alloc, counted_free, &budget};
    ProtobufCMessage *message = protobuf_c_message_unpack(type, &allocator, size, bytes);
    if (!message && budget.exceeded && budget.parts == 0)
        return error_set(err, E_RESOURCE_EXHAUSTED, "%s has more than %zu parts", type->short_name,
                         parts_max);
    if (!message && budget.exceeded)
        return error_set(err, E_RESOURCE_EXHAUSTED, "%s needs more than %d bytes of memory",
                         type->short_name, RPC_UNPACKED_MAX_BYTES);
    if (!message)
        return error_set(err, E_INVALID_ARGUMENT, "%zu bytes are not a valid %s", size,
                         type->short_name);
    int rc = check_message_text(message, err);
    if (rc) {
        rpc_message_free(message);
        error_wrap(err, "%s", type->short_name);
        return rc;
    }
    *ret = message;
    return 0;
}

int rpc_message_pack(const ProtobufCMessage *message, struct buf *out, struct error *err)
{
    size_t size = protobuf_c_message_get_packed_size(message);
    if (size > RPC_PAYLOAD_MAX_BYTES)
        return error_set(err, E_OUT_OF_RANGE, "a %s of %zu bytes is above the %d allowed",
                         message->descriptor->short_name, size, RPC_PAYLOAD_MAX_BYTES);
    size_t at = out->size;
    if (buf_fill(out, 0, size))
        return error_set(err, E_RESOURCE_EXHAUSTED, "no room for a %s of %zu bytes",
                         message->descriptor->short_name, size);
    if (size)
        protobuf_c_message_pack(message, (uint8_t *)out->data + at);
    return 0;
}

ProtobufCMessage *rpc_message_copy(const ProtobufCMessage *message)
{
    size_t size = protobuf_c_message_get_packed_size(message);
    uint8_t *bytes = malloc(size ? size : 1);
    if (!bytes)
        return NULL;
    protobuf_c_message_pack(message, bytes);
    ProtobufCAllocator allocator = {counted_alloc, counted_free, NULL};
    ProtobufCMessage *copy =
        protobuf_c_message_unpack(message->descriptor, &allocator, size, bytes);
    free(bytes);
    return copy;
}

void rpc_message_free(void *message)
{
    ProtobufCAllocator allocator = {counted_alloc, counted_free, NULL};
    if (message)
        protobuf_c_message_free_unpacked(message, &allocator);
}

void *rpc_message_alloc(size_t size)
{
    return counted_alloc(NULL, size);
}
