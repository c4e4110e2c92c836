"""Muster's RPC spoken by hand (proto/PROTOCOL.md), so that what no client of ours sends can be sent."""
import itertools
import os
import socket
import struct
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))
from localcluster import HANG_SECONDS, secure  # noqa: E402

MESSAGE_MAX = 8 << 20
CODES = {0: "OK", 3: "INVALID_ARGUMENT", 5: "NOT_FOUND", 7: "PERMISSION_DENIED", 8: "RESOURCE_EXHAUSTED", 10: "ABORTED", 14: "UNAVAILABLE", 16: "UNAUTHENTICATED"}


def varint(number):
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def text(field, value):
    data = value if isinstance(value, bytes) else value.encode()
    return varint(field << 3 | 2) + varint(len(data)) + data


def number(field, value):
    return varint(field << 3) + varint(value)


def fields(data):
    """{field: last value} of a message: integers and bytes."""
    found, at = {}, 0

    def take():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value
    while at < len(data):
        key = take()
        if key & 7 == 0:
            found[key >> 3] = take()
        elif key & 7 == 2:
            size = take()
            found[key >> 3] = data[at:at + size]
            at += size
        else:
            size = {1: 8, 5: 4}[key & 7]
            found[key >> 3] = data[at:at + size]
            at += size
    return found


class Peer:
    """One connection. `url` is a coordinator's tcp:// or an agent's ipc://; `source`: the address it comes from."""
    ids = itertools.count(1)

    def __init__(self, url, timeout=HANG_SECONDS, keys=None, source=""):
        scheme, place = url.split("://", 1)
        self.local = scheme == "ipc"
        if self.local:
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(timeout)
            self.socket.connect(place)
        else:
            host, port = place.split("?")[0].rsplit(":", 1)
            self.socket = secure(socket.create_connection((host, int(port)), timeout, (source, 0)), keys)
        self.socket.sendall(b"\0SP\0\0\x30\0\0")
        self.received(8)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def received(self, size):
        data = b""
        while len(data) < size:
            more = self.socket.recv(size - len(data))
            if not more:
                raise ConnectionResetError("hung up")
            data += more
        return data

    def framed(self, body):
        head = (b"\1" if self.local else b"") + struct.pack(">Q", len(body) + 4)
        return head + struct.pack(">I", next(self.ids) & 0x7FFFFFFF | 0x80000000) + body

    def request(self, method, payload=b"", token="", timeout_ms=10000):
        """The bytes of a call."""
        envelope = text(1, method) + number(2, 1) + number(3, timeout_ms) + text(4, token) + text(5, payload)
        return self.framed(b"MST1" + struct.pack("<I", len(envelope)) + envelope)

    def send(self, *words, **more):
        self.socket.sendall(self.request(*words, **more))

    def answer(self):
        """(code's name, message, payload) of the next answer that comes."""
        if self.local:
            self.received(1)
        size = struct.unpack(">Q", self.received(8))[0]
        found = fields(self.received(size)[12:])
        code = found.get(2, 0)
        return CODES.get(code, code), found.get(3, b"").decode(), found.get(6, b"")

    def call(self, *words, **more):
        self.send(*words, **more)
        return self.answer()


def cpu_seconds(pid):
    """What a process has computed so far."""
    with open(f"/proc/{pid}/stat") as file:
        user, system = file.read().rsplit(")", 1)[1].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
