"""The coordinator, over REST: submit jobs, read their output, wait for their end.

    client = muster.Client()                        # of `muster up`, or of MUSTER_HTTP and MUSTER_TOKEN
    job = client.submit(["python3", "train.py"], nodes=2, name="gpt")
    for line in client.follow(job["id"]):
        print(line["text"])
    print(client.wait(job["id"])["state"])

Every call of docs/rest.md is a method (muster/api.py), with types from OpenAPI. Errors are muster.Error with
the coordinator's sentence; NotFound and Unavailable where it is that. One connection a call; any thread.
"""
from __future__ import annotations

import json
import os
import ssl
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union
from urllib.parse import urlencode

from .api import Api
from .api_types import Job, JobSpecInput, LogLine
from .errors import Error, NotFound, Unavailable

ENDED = ("succeeded", "failed", "cancelled")
TRIES, RETRY_S = 5, 1.0  # of a call that may be repeated
TIMEOUT_S = 60.0
STREAM_SILENCE_S = 120.0  # comments of a stream come more often


def _of_up() -> Tuple[str, str]:
    """(address, token) of the cluster that `muster up` started last; texts are empty where it is not."""
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share") / "muster/current"
    try:
        return (data / "http.url").read_text().strip(), (data / "admin.token").read_text().strip()
    except OSError:
        return "", ""


class Client(Api):
    """address  "http://127.0.0.1:7480"; by default MUSTER_HTTP, else the running `muster up`
    token    by default MUSTER_TOKEN, else that of `muster up`, which is sent to no other address
    ca_file  what `muster tls ca` prints, for https
    """

    def __init__(self, address: Optional[str] = None, token: Optional[str] = None, *, ca_file: Optional[str] = None,
                 timeout_s: float = TIMEOUT_S) -> None:
        up, up_token = _of_up()
        self.address = (address or os.environ.get("MUSTER_HTTP") or up).rstrip("/")
        if not self.address:
            raise Unavailable("no coordinator: pass address=, set MUSTER_HTTP, or start `muster up`")
        if "://" not in self.address:
            self.address = f"http://{self.address}"
        self.token = token or os.environ.get("MUSTER_TOKEN") or (up_token if self.address == up.rstrip("/") else "")
        self.timeout_s = timeout_s
        self._context = ssl.create_default_context(cafile=ca_file) if self.address.startswith("https") else None

    # The connection.

    def _open(self, method: str, path: str, body: Any, headers: Mapping[str, str], timeout_s: float) -> Any:
        data = None if body is None else json.dumps(body).encode()
        head = {"Accept": "application/json", **({"Content-Type": "application/json"} if data is not None else {}), **headers}
        if self.token:
            head["Authorization"] = f"Bearer {self.token}"
        request = urllib.request.Request(self.address + path, data=data, method=method, headers=head)
        try:
            return urllib.request.urlopen(request, timeout=timeout_s, context=self._context)
        except urllib.error.HTTPError as error:
            with error:
                raise _refusal(error.code, error.read(), error.headers.get("Retry-After")) from None
        except (urllib.error.URLError, OSError) as error:
            raise Unavailable(f"{self.address} does not answer: {getattr(error, 'reason', error)}") from None

    def _call(self, method: str, path: str, *, query: Optional[Mapping[str, Any]] = None, body: Any = None,
              idempotency_key: Optional[str] = None) -> Any:
        headers = {"Idempotency-Key": idempotency_key} if idempotency_key else {}
        repeats = method == "GET" or bool(idempotency_key)
        for number in range(TRIES):
            try:
                with self._open(method, path + _asked(query), body, headers, self.timeout_s) as answer:
                    data, kind = answer.read(), answer.headers.get_content_type()
                return json.loads(data) if kind == "application/json" else data.decode(errors="replace")
            except Unavailable as error:
                if not repeats or number == TRIES - 1:
                    raise
                time.sleep(min(error.retry_s, 10 * RETRY_S))
        raise AssertionError("unreachable")

    def _stream(self, path: str, query: Optional[Mapping[str, Any]] = None) -> Iterator[Tuple[str, Any]]:
        """(event, document) of a stream, to its end; a stream that breaks continues after its last event."""
        last, failures = "", 0
        while True:
            headers = {"Accept": "text/event-stream", **({"Last-Event-ID": last} if last else {})}
            try:
                with self._open("GET", path + _asked(query), None, headers, STREAM_SILENCE_S) as answer:
                    for number, event, data in _events(answer):
                        last, failures = number or last, 0
                        if event == "end":
                            return
                        yield event, json.loads(data)
            except (Unavailable, OSError) as error:
                failures += 1
                if failures == TRIES:
                    raise Unavailable(f"the stream of {path} broke: {error}") from None
                time.sleep(RETRY_S)

    # What programs do.

    def submit(self, command: Sequence[Union[str, "os.PathLike[str]"]], *, nodes: Union[int, Tuple[int, int], None] = None,
               idempotency_key: Optional[str] = None, **spec: Any) -> Job:
        """nodes: 2, or (1, 3) of an elastic job. spec: other keys of a job (docs/jobs.md): name,
        workers_per_node, env, workdir, training, checkpoint, restart, … A submit that was cut off is repeated
        and makes one job. Error names a key that does not exist."""
        body: Dict[str, Any] = {**spec, "command": [os.fspath(word) for word in command]}
        if nodes is not None:
            least, most = (nodes, nodes) if isinstance(nodes, int) else nodes
            body["nodes"] = {"min": least, "max": most}
        made: JobSpecInput = body  # type: ignore[assignment]
        return self.submit_job(made, idempotency_key=idempotency_key or os.urandom(16).hex())

    def follow(self, job: str, *, rank: Optional[int] = None) -> Iterator[LogLine]:
        """Lines of output from the first on, until the job has ended."""
        for _, line in self._stream(f"/v1/jobs/{job}/logs", {"rank": rank, "follow": True}):
            yield line

    def watch(self, job: str) -> Iterator[Job]:
        """The job now and at each change, until it has ended."""
        for event, document in self._stream(f"/v1/jobs/{job}"):
            if event == "job":
                yield document

    def wait(self, job: str) -> Job:
        """The job once it has ended."""
        for now in self.watch(job):
            if now["state"] in ENDED:
                return now
        return self.get_job(job)


def submit(command: Sequence[Union[str, "os.PathLike[str]"]], **spec: Any) -> Job:
    """Client().submit."""
    return Client().submit(command, **spec)


def _asked(query: Optional[Mapping[str, Any]]) -> str:
    given = {name: str(value).lower() if isinstance(value, bool) else value
             for name, value in (query or {}).items() if value is not None}
    return f"?{urlencode(given)}" if given else ""


def _events(answer: Any) -> Iterator[Tuple[str, str, str]]:
    """(id, event, data) of server-sent events."""
    number, event = "", "message"
    data: List[str] = []
    for raw in answer:
        line = raw.decode(errors="replace").rstrip("\r\n")
        name, _, value = line.partition(":")
        value = value[1:] if value.startswith(" ") else value
        if not line:
            if data or event == "end":
                yield number, event, "\n".join(data) or "null"
            number, event, data = "", "message", []
        elif name == "id":
            number = value
        elif name == "event":
            event = value
        elif name == "data":
            data.append(value)


def _refusal(status: int, body: bytes, retry_after: Optional[str]) -> Error:
    try:
        error = json.loads(body)["error"]
        sentence = ": ".join(str(error[key]) for key in ("field", "message", "hint") if error.get(key))
    except (ValueError, KeyError, TypeError):
        sentence = body[:200].decode(errors="replace") or f"HTTP status {status}"
    kind = NotFound if status == 404 else Unavailable if status in (429, 502, 503, 504) else Error
    refusal = kind(sentence, status)
    if retry_after and retry_after.isdigit():
        refusal.retry_s = float(retry_after)
    return refusal
