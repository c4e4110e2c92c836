#!/usr/bin/python3
"""Reading over HTTP beside nginx: GET /v1/jobs of 100 jobs on 64 connections of one client thread, with a token,
without If-None-Match and Accept-Encoding, while a job changes every 100 ms. Each change is read back at once: the
first answer that begins after the change was acknowledged must show it. nginx serves the same bytes from a file, in
turns with ours in the same run. GET /healthz stands beside it. The load comes from wrk. Debian has both (wrk,
nginx-light); without them the lines say what is missing.
"""
import http.client
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
from localcluster import Cluster, free_port, wait_for  # noqa: E402

BUILD = Path(os.environ.get("MUSTER_BENCH_BUILD", ROOT / "build-release"))
ROUNDS = int(os.environ.get("MUSTER_BENCH_ROUNDS", "7"))
SECONDS = int(os.environ.get("MUSTER_BENCH_SECONDS", "3"))
JOBS, CONNECTIONS, CHANGE_EVERY_S = 100, 64, 0.1
WRK = shutil.which("wrk")
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")

NGINX_CONF = """
daemon off; master_process off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/nginx.log;
events {{ worker_connections 1024; }}
http {{
  access_log off; sendfile {sendfile}; tcp_nopush on; keepalive_requests 100000000; open_file_cache max=10; output_buffers 2 256k;
  default_type application/json; client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
  uwsgi_temp_path {folder}; scgi_temp_path {folder};
  server {{ listen 127.0.0.1:{port}; root {folder}; }}
}}
"""


def report(metric, ours, unit, target, peers=None, peer_name=None, **more):
    peer = statistics.median(peers) if peers else None
    value = statistics.median(ours)
    print(json.dumps({"bench": "http", "metric": metric, "ours": round(value, 1), "peer": peer and round(peer, 1),
                      "peer_name": peer_name, "ratio": peer and round(value / peer, 3), "unit": unit, "target": target,
                      "min": round(min(ours), 1), "max": round(max(ours), 1), "rounds": len(ours), **more}), flush=True)


def load(url, token=None):
    """Answers a second; every one must be a success."""
    head = ["-H", f"Authorization: Bearer {token}"] if token else []
    done = subprocess.run([WRK, "-t1", f"-c{CONNECTIONS}", f"-d{SECONDS}s", *head, url], capture_output=True, text=True, check=True)
    if "Non-2xx" in done.stdout or "Socket errors" in done.stdout:
        raise RuntimeError(f"http: {url}: {done.stdout}")
    return float(re.search(r"Requests/sec:\s*([\d.]+)", done.stdout).group(1))


class Client:
    """One connection that stays."""

    def __init__(self, cluster):
        self.connection = http.client.HTTPConnection(cluster.http, timeout=30)
        self.head = {"Authorization": f"Bearer {cluster.token}", "Accept-Encoding": "identity"}

    def __call__(self, method, path, body=None):
        self.connection.request(method, path, body and json.dumps(body), self.head)
        answer = self.connection.getresponse()
        data = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"http: {method} {path}: {answer.status} {data[:300]}")
        return data


class Changes(threading.Thread):
    """Another size for one of the jobs every 100 ms, read back by the very path that is measured."""

    def __init__(self, cluster, job):
        super().__init__(daemon=True)
        self.ask, self.job = Client(cluster), job
        self.over, self.made, self.stale, self.failure = threading.Event(), 0, 0, None

    def run(self):
        try:
            while not self.over.wait(CHANGE_EVERY_S):
                size = 2 + self.made % 50
                self.ask("POST", f"/v1/jobs/{self.job}:scale", {"min": size})
                shown = json.loads(self.ask("GET", "/v1/jobs"))["jobs"]
                self.stale += next(j for j in shown if j["id"] == self.job)["spec"]["nodes"]["min"] != size
                self.made += 1
        except Exception as error:
            self.failure = error

    def end(self):
        self.over.set()
        self.join()
        if self.failure:
            raise self.failure
        if self.stale or not self.made:
            raise RuntimeError(f"http: {self.stale} of {self.made} changes were not in the next answer")


@contextmanager
def nginx(folder, body):
    """The same bytes as a file, with and without sendfile: the better one counts."""
    (folder / "jobs").write_bytes(body)
    (folder / "healthz").write_bytes(b"ok\n")
    started, urls = [], []
    try:
        for sendfile in ("on", "off"):
            port = free_port()
            conf = folder / f"nginx-{sendfile}.conf"
            conf.write_text(NGINX_CONF.format(folder=folder, port=port, sendfile=sendfile))
            started.append(subprocess.Popen([NGINX, "-c", str(conf), "-e", str(folder / "nginx.log")], stdin=subprocess.DEVNULL))
            def serves(port=port):
                try:
                    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
                    connection.request("GET", "/jobs")
                    return connection.getresponse().read() == body
                except OSError:
                    return False
            wait_for("nginx serves", 10, serves)
            urls.append(f"http://127.0.0.1:{port}")
        yield max(urls, key=lambda url: load(url + "/jobs"))
    finally:
        for process in started:
            process.terminate()
            process.wait()


def measure(cluster, folder):
    ask = Client(cluster)
    ids = [json.loads(ask("POST", "/v1/jobs", {"name": f"read-{i}", "command": ["python3", "train.py", "--steps", "1000"], "nodes": 1}))["id"]
           for i in range(JOBS)]
    body = ask("GET", "/v1/jobs")
    url, more = f"http://{cluster.http}", {"bytes": len(body), "connections": CONNECTIONS}
    peer_url = None
    with nginx(folder, body) if NGINX else nothing() as peer_url:
        ours, peers, health, peer_health, made = [], [], [], [], 0
        for _ in range(ROUNDS):
            changes = Changes(cluster, ids[JOBS // 2])
            changes.start()
            ours.append(load(url + "/v1/jobs", cluster.token))
            changes.end()
            made += changes.made
            health.append(load(url + "/healthz"))
            if peer_url:
                peers.append(load(peer_url + "/jobs"))
                peer_health.append(load(peer_url + "/healthz"))
    name = "nginx" if peer_url else "nginx is missing (Debian's nginx-light)"
    report("GET /v1/jobs of 100 jobs", ours, "1/s", "0.7x", peers, name, floor="0.4x", changes_seen=made, **more)
    report("GET /healthz", health, "1/s", None, peer_health, name, connections=CONNECTIONS)


@contextmanager
def nothing():
    yield None


def main():
    if not (BUILD / "muster").exists():
        print("bench http: nothing was built for it", file=sys.stderr)
        return 1
    if not WRK:
        print("bench http: Debian's wrk is missing: apt-get install wrk", file=sys.stderr)
        return 1
    folder = Path(tempfile.mkdtemp(prefix="muster-http-"))
    try:
        with Cluster(folder / "cluster", BUILD / "muster") as cluster:
            cluster.start_coordinator()
            measure(cluster, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
