"""A stand-in for the agent, by docs/report.md: a Unix socket that keeps what it hears and answers as it is told."""
import json
import os
import socket
import tempfile
import threading
import time

ENVIRONMENT = "MUSTER_REPORT_SOCKET"
HELLO = {"protocol": 1, "job": "j1", "uid": "u1", "generation": 3, "rank": 0, "world": 1, "local_rank": 0, "local_world": 1, "node_rank": 0, "nodes": 1,
         "restarts": 0, "master_addr": "127.0.0.1", "master_port": 29500, "latest": None, "stop": False, "beat_ms": 500, "line_bytes": 32768}


def wait_for(what, probe, seconds=20.0):
    end = time.monotonic() + seconds
    while True:
        value = probe()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {seconds} s")
        time.sleep(0.005)


class AgentPeer:
    """`answers`: what a request of each kind gets, a dict or a function of the message. `deaf`: it accepts and does not read
    before `listens` is set. `with_board_of`: another peer, as agents of the ranks of one job share their board. Stacks are
    taken by a pipe that it gives away (`pipes`), or by their connection, and read or not (`reads_stacks`)."""

    def __init__(self, path=None, hello=None, answers=None, deaf=False, with_board_of=None, pipes=False, reads_stacks=True):
        self.path = path or os.path.join(tempfile.mkdtemp(prefix="m"), "s")
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        self.hello = {**HELLO, **(hello or {})}
        self.answers = answers or {}
        self.listens = threading.Event()
        if not deaf:
            self.listens.set()
        self.heard, self.garbage, self.stacks = [], [], b""
        self.pipes, self.reads_stacks = pipes, reads_stacks
        self.reading_ends = []
        self.board = with_board_of.board if with_board_of else {}
        self.changed = with_board_of.changed if with_board_of else threading.Condition()
        self.connections = []
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen(16)
        self.threads = [threading.Thread(target=self._accept, daemon=True)]
        self.threads[0].start()

    def _accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.connections.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        rest = b""
        self.listens.wait()
        try:
            while data := connection.recv(65536):
                *lines, rest = (rest + data).split(b"\n")
                for number, line in enumerate(lines):
                    if self._line(connection, line):
                        if not self.reads_stacks:
                            return
                        self.stacks += b"\n".join([*lines[number + 1:], rest])
                        while data := connection.recv(65536):
                            self.stacks += data
                        return
        except OSError:
            pass

    def _line(self, connection, line):
        """True: what follows is text."""
        try:
            message = json.loads(line)
        except ValueError:
            self.garbage.append(line)
            return False
        with self.changed:
            self.heard.append(message)
            self.changed.notify_all()
        if message["do"] == "stacks":
            if self.pipes and message.get("pipe"):
                self._give_pipe(connection)
            return True
        if "id" in message:
            threading.Thread(target=self._answer, args=(connection, message), daemon=True).start()
        return False

    def _give_pipe(self, connection):
        reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        socket.send_fds(connection, [b'{"event":"pipe"}\n'], [writing])
        os.close(writing)
        if self.reads_stacks:
            os.set_blocking(reading, True)
            threading.Thread(target=self._read_pipe, args=(reading,), daemon=True).start()
        else:
            self.reading_ends.append(reading)

    def _read_pipe(self, reading):
        while data := os.read(reading, 65536):
            self.stacks += data
        os.close(reading)

    def _answer(self, connection, message):
        do = message["do"]
        answer = self.answers.get(do)
        if callable(answer):
            answer = answer(message)
        if answer is None:
            answer = self.hello if do == "hello" else self._board(message) if do in ("put", "get") else {}
        if answer != "silence":
            self.say(connection, {**answer, "id": message["id"]})

    def _board(self, message):
        with self.changed:
            if message["do"] == "put":
                self.board[message["key"]] = message["value"]
                self.changed.notify_all()
                return {}
            self.changed.wait_for(lambda: message["key"] in self.board, message.get("wait_s", 0))
            found = message["key"] in self.board
            return {"found": found, "value": self.board.get(message["key"], "")}

    @staticmethod
    def say(connection, message):
        try:
            connection.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            pass

    def event(self, **message):
        for connection in list(self.connections):
            self.say(connection, message)

    def of(self, do):
        return [message for message in list(self.heard) if message["do"] == do]

    def stop(self):
        """As an agent that ends: its sockets close, and its path is gone. Repeating it changes nothing."""
        if self.listener.fileno() < 0:
            return
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.listens.set()
        for connection in self.connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            connection.close()
        for reading in self.reading_ends:
            os.close(reading)
        os.unlink(self.path)
        os.rmdir(os.path.dirname(self.path))
