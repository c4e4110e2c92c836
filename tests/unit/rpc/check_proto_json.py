#!/usr/bin/python3
"""Our proto3 JSON against Google's: random messages of every schema, both directions.

usage: check_proto_json.py PIPE_PROGRAM REPOSITORY [SEED]
"""
import math
import random
import subprocess
import sys
import tempfile

SKIPPED = 77
try:
    from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
except ImportError:
    print("SKIPPED: python3-protobuf is not installed for this interpreter")
    sys.exit(SKIPPED)

TYPES = """RpcRequest RpcAnswer JobSpec Job Event Node ListJobsAnswer GetMetricsAnswer GetLogsRequest
NodeReport Assignment BoardRequest WorkerJoinAnswer CommitCheckpointRequest""".split()
TEXT = ["", "a", "job-1", "with \"quotes\" \\ and \t tabs\n", "\u20ac \U0001f600 \u0001", "0", "\x7f"]
# Without -0.0: protobuf-c packs it as a default, that is not at all.
EDGE = {"int32": [0, 1, -1, 2**31 - 1, -2**31], "uint32": [0, 1, 2**32 - 1],
        "int64": [0, -1, 2**63 - 1, -2**63, 2**53 + 1], "uint64": [0, 1, 2**64 - 1, 2**53 + 1],
        "double": [0.0, 0.1, -1e300, 5e-324, 1e22, 3.0, math.inf, -math.inf, math.nan]}


def load(repository):
    with tempfile.NamedTemporaryFile(suffix=".desc") as out:
        subprocess.run(["protoc-c", "--descriptor_set_out=" + out.name, "--include_imports",
                        "proto/worker.proto", "proto/rpc.proto"], cwd=repository, check=True)
        files = descriptor_pb2.FileDescriptorSet.FromString(open(out.name, "rb").read())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    factory = message_factory.MessageFactory(pool)
    return {t: factory.GetPrototype(pool.FindMessageTypeByName("muster." + t)) for t in TYPES}


def value(rng, field):
    kinds = {field.TYPE_INT32: "int32", field.TYPE_UINT32: "uint32", field.TYPE_INT64: "int64",
             field.TYPE_UINT64: "uint64", field.TYPE_DOUBLE: "double"}
    if field.type in kinds:
        return rng.choice(EDGE[kinds[field.type]])
    if field.type == field.TYPE_BOOL:
        return rng.random() < 0.5
    if field.type == field.TYPE_ENUM:
        return rng.choice([v.number for v in field.enum_type.values] + [12345])
    if field.type == field.TYPE_STRING:
        return rng.choice(TEXT)
    if field.type == field.TYPE_BYTES:
        return bytes(rng.randrange(256) for _ in range(rng.randrange(6)))
    raise TypeError("a field type this check does not know: %s" % field.full_name)


def fill(rng, message, depth=0):
    for field in message.DESCRIPTOR.fields:
        if rng.random() < 0.4:
            continue
        target = getattr(message, field.name)
        if field.message_type and field.message_type.GetOptions().map_entry:
            for _ in range(rng.randrange(4)):
                target[rng.choice(TEXT)] = value(rng, field.message_type.fields_by_name["value"])
        elif field.message_type and field.label == field.LABEL_REPEATED:
            for _ in range(rng.randrange(3)):
                fill(rng, target.add(), depth + 1)
        elif field.message_type:
            target.SetInParent()
            fill(rng, target, depth + 1)
        elif field.label == field.LABEL_REPEATED:
            target.extend(value(rng, field) for _ in range(rng.randrange(4)))
        else:
            setattr(message, field.name, value(rng, field))


def canonical(message):
    return message.SerializeToString(deterministic=True)


def main():
    program, repository = sys.argv[1:3]
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    rng = random.Random(seed)
    classes = load(repository)
    sent, lines = [], []
    for i in range(3000):
        name = TYPES[i % len(TYPES)]
        message = classes[name]()
        fill(rng, message)
        json = json_format.MessageToJson(message, preserving_proto_field_name=i % 2 == 0,
                                         including_default_value_fields=i % 3 == 0, indent=None)
        sent.append((name, message, json))
        lines.append("%s\t%s\t%s\n" % (name, json, message.SerializeToString().hex()))
    answers = subprocess.run([program], input="".join(lines), capture_output=True, text=True,
                             check=True, encoding="utf-8").stdout.split("\n")[:-1]
    failed = 0
    assert len(answers) == len(sent)
    for (name, message, json), answer in zip(sent, answers):
        packed, ours = answer.split("\t")
        good = not packed.startswith("!") and not ours.startswith("!")
        if good:
            read = classes[name].FromString(bytes.fromhex(packed))
            parsed = json_format.Parse(ours, classes[name]())
            good = canonical(read) == canonical(message) == canonical(parsed)
        if not good:
            failed += 1
            if failed <= 5:
                print("FAIL", name, "\n  theirs:", json, "\n  ours:  ", ours, "\n  packed:", packed)
    print("%d messages, %d differ (seed %d)" % (len(sent), failed, seed))
    return failed != 0


sys.exit(main())
