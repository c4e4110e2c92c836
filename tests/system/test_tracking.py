"""What training writes for others to read: TensorBoard events, JSON lines and CSV tell the same, and
the Chrome trace adds up. With MUSTER_TENSORBOARD_PYTHON, an interpreter that has the tensorboard
package, that package reads the events too."""
import csv
import json
import os
import struct
import subprocess
import sys

import pytest
from test_examples import EXAMPLES, run_ranks

PHASES = {"data", "forward", "backward", "exposed_communication", "optimizer", "checkpoint"}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("track")
    run_ranks(2, [EXAMPLES / "gpt", "--data", "LICENSE", "--steps", "12", "--layers", "1", "--width", "32", "--context", "32", "--batch", "8",
                  "--warmup", "2", "--sample", "0", "--log-every", "4"],
              MUSTER_LOG_FILE=str(folder / "log.jsonl"), MUSTER_LOG_CSV=str(folder / "log.csv"), MUSTER_LOG_TENSORBOARD=str(folder / "events"),
              MUSTER_TRACE_FILE=str(folder / "trace.json"), MUSTER_CHECKPOINT_DIR=str(folder / "k"))
    return folder


@pytest.fixture(scope="module")
def logged(written):
    lines = [json.loads(line) for line in (written / "log.jsonl").read_text().splitlines()]
    return {(line["step"], line["name"]): line["value"] for line in lines}


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff


def records(path):
    data, at = path.read_bytes(), 0
    while at < len(data):
        size, of_size = struct.unpack_from("<QI", data, at)
        record = data[at + 12:at + 12 + size]
        of_data, = struct.unpack_from("<I", data, at + 12 + size)
        assert of_size == masked(data[at:at + 8]) and of_data == masked(record), f"digest at byte {at}"
        yield record
        at += 16 + size


def fields(message):
    """(number, value) of a protobuf message."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
    while at < len(message):
        key = varint()
        kind = key & 7
        if kind == 0:
            yield key >> 3, varint()
            continue
        size = {1: 8, 5: 4}.get(kind) or varint()
        yield key >> 3, message[at:at + size]
        at += size


def events(folder):
    file, = folder.glob("events.out.tfevents.*")
    first, *rest = [dict(fields(record)) for record in records(file)]
    assert first[3] == b"brain.Event:2"
    for event in rest:
        scalar = dict(fields(dict(fields(event[5]))[1]))
        yield event.get(2, 0), scalar[1].decode(), struct.unpack("<f", scalar[2])[0]


def near(a, b):
    return abs(a - b) <= 1e-6 * abs(b) + 1e-12


def test_events_json_and_csv_tell_the_same(written, logged):
    seen = {(step, name): value for step, name, value in events(written / "events")}
    assert set(seen) == set(logged) and {(step, "loss") for step in range(1, 13)} <= set(seen)
    assert all(near(seen[key], logged[key]) for key in seen)
    rows = list(csv.DictReader((written / "log.csv").open()))
    assert {(int(row["step"]), row["name"]): float(row["value"]) for row in rows} == logged


def test_the_tensorboard_package_reads_the_events(written, logged):
    python = os.environ.get("MUSTER_TENSORBOARD_PYTHON", sys.executable)
    script = """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
read = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0})
read.Reload()
print(json.dumps([[e.step, tag, e.value] for tag in read.Tags()["scalars"] for e in read.Scalars(tag)]))
"""
    if subprocess.run([python, "-c", "import tensorboard"], capture_output=True).returncode:
        pytest.skip("no tensorboard package here (MUSTER_TENSORBOARD_PYTHON can name an interpreter that has it)")
    done = subprocess.run([python, "-c", script, written / "events"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    seen = {(step, tag): value for step, tag, value in json.loads(done.stdout)}
    assert set(seen) == set(logged) and all(near(seen[key], logged[key]) for key in seen)


def test_phases_add_up_to_the_step(written, logged):
    for step in (4, 8, 12):
        parts = {name: logged[step, "profile/" + name] for name in PHASES | {"other"}}
        assert abs(sum(parts.values()) - logged[step, "profile/step"]) < 1e-9
        assert all(value >= 0 for value in parts.values())
        assert parts["forward"] > 0 and parts["backward"] > 0 and parts["optimizer"] > 0


def test_the_trace_is_json_and_every_phase_lies_in_its_step(written, logged):
    trace = json.loads((written / "trace.json").read_text())
    assert trace[0]["ph"] == "M"
    spans = [e for e in trace if e["ph"] == "X"]
    steps = {e["args"]["step"]: e for e in spans if e["name"] == "step"}
    assert set(steps) == set(range(1, 13))
    slack = 0.01  # microseconds: times are written with three digits
    for step, span in steps.items():
        inside = [e for e in spans if e["args"]["step"] == step and e["name"] != "step"]
        assert {"data", "forward", "backward", "optimizer"} <= {e["name"] for e in inside} <= PHASES
        assert all(e["ts"] >= span["ts"] - slack and e["ts"] + e["dur"] <= span["ts"] + span["dur"] + slack for e in inside)
        if step > 1:
            assert abs(span["ts"] - steps[step - 1]["ts"] - steps[step - 1]["dur"]) < slack
    for last in (4, 8, 12):
        mean = sum(steps[step]["dur"] for step in range(last - 3, last + 1)) / 4e6
        assert abs(mean - logged[last, "profile/step"]) < 1e-6
