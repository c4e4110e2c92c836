/* Messages <-> trees <-> JSON, driven by protobuf-c descriptors: one validation path for REST
 * bodies, job specs and CLI output. The rules are proto3's JSON mapping
 * (https://protobuf.dev/programming-guides/json), with two choices made here:
 *
 * - Names are the schema's own (snake_case) in both directions. The lowerCamelCase form is accepted
 *   on input, as the mapping requires, and never written.
 * - Unknown fields are refused, with their line and the nearest name.
 *
 * 64-bit integers are strings, enums their names (numbers accepted), bytes base64, maps objects.
 * Doubles may be "NaN", "Infinity", "-Infinity". null means absent; with `defaults` an absent
 * optional field is written as null. No state; any thread.
 */
#ifndef RPC_TRANSCODE_H
#define RPC_TRANSCODE_H

#include <stdbool.h>
#include <stddef.h>

#include <protobuf-c/protobuf-c.h>

#include "common/base/arena.h"
#include "common/base/buf.h"
#include "common/base/error.h"
#include "common/base/tree.h"

enum { TRANSCODE_DEPTH_MAX = 32 };

struct transcode_input_options { /* NULL or zeroed: strict */
    bool lenient; /* for hand-written YAML: numbers and booleans are accepted as text, and a single
                   * text as a list of texts */
};

struct transcode_output_options { /* NULL or zeroed: only what is set, on one line */
    bool defaults; /* also fields at their default: 0, "", [], {}; absent messages stay absent, and
                      deprecated fields that are not set */
    bool pretty;
};

/* A message of `type`; free it with rpc_message_free. E_INVALID_ARGUMENT with place, path and the
 * expected type (err->field is the path); E_OUT_OF_RANGE for numbers that do not fit. */
int transcode_from_tree(const struct tree *tree, const ProtobufCMessageDescriptor *type,
                        const struct transcode_input_options *options, ProtobufCMessage **ret,
                        struct error *err);

/* Parse and transcode in one. */
int transcode_from_json(const char *text, size_t size, const ProtobufCMessageDescriptor *type,
                        ProtobufCMessage **ret, struct error *err);

/* Built in `arena`. Map entries are in key order. E_RESOURCE_EXHAUSTED. */
int transcode_to_tree(const ProtobufCMessage *message,
                      const struct transcode_output_options *options, struct arena *arena,
                      struct tree **ret, struct error *err);

/* Appends. */
int transcode_to_json(const ProtobufCMessage *message,
                      const struct transcode_output_options *options, struct buf *out,
                      struct error *err);

/* The schema's name of an enum value ("running"), NULL if it has none. */
const char *transcode_enum_name(const ProtobufCEnumDescriptor *type, int value);

#endif
