"""Bad input gets a clear error and loses nothing."""
import os
import random
import resource
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from localcluster import HANG_SECONDS, Cluster, secure, wait_for


def submit_text(cluster, folder, text, name="job.yaml"):
    path = folder / name
    path.write_text(text)
    return cluster.muster("submit", path)


def still_fine(cluster):
    job = cluster.submit("--", "/bin/true")
    cluster.wait_state(job, "succeeded")


def test_specs_are_refused_with_place_and_nearest_name(cluster, tmp_path):
    done = submit_text(cluster, tmp_path, "name: a\ncommand: [/bin/true]\nresources:\n  slot: 1\n")
    assert done.returncode == 2
    assert "job.yaml: line 4, column 3" in done.stderr and "slots" in done.stderr, done.stderr
    done = submit_text(cluster, tmp_path, "\n")
    assert done.returncode == 2 and "job.yaml is empty" in done.stderr, done.stderr
    done = submit_text(cluster, tmp_path, "command: [/bin/true]\nnodes: 0\n")
    assert done.returncode == 2 and "job.yaml: line 2, column 1: nodes must be more than 0" in done.stderr, done.stderr
    done = cluster.muster("submit", tmp_path)
    assert done.returncode == 2 and "is a folder" in done.stderr, done
    done = cluster.muster("submit", "--slots", "0", "--", "/bin/true")
    assert done.returncode == 2 and "slots must be more than 0" in done.stderr, done.stderr
    done = submit_text(cluster, tmp_path, "name: a\n")
    assert done.returncode == 2 and "command" in done.stderr
    done = submit_text(cluster, tmp_path, "name: Not A Name!\ncommand: [/bin/true]\n")
    assert done.returncode == 2 and "name" in done.stderr
    done = submit_text(cluster, tmp_path, "name: [unclosed\n")
    assert done.returncode == 2 and "line" in done.stderr.lower() or ":" in done.stderr
    done = submit_text(cluster, tmp_path, '{"name": "a", "command": ["/bin/true"], "nodez": 2}', "job.json")
    assert done.returncode == 2 and "nodes" in done.stderr, done.stderr
    still_fine(cluster)


def test_values_are_refused_with_file_and_line(cluster, tmp_path):
    text = "name: a\ncommand: [/bin/true]\nrestart:\n  backoff: soon\npriority: urgent\n"
    done = submit_text(cluster, tmp_path, text)
    assert done.returncode == 2 and "job.yaml: line 5, column 1: 'urgent' is not a priority" in done.stderr, done.stderr
    done = submit_text(cluster, tmp_path, text.replace("urgent", "low"))
    assert done.returncode == 2 and "job.yaml: line 4, column 3:" in done.stderr, done.stderr
    done = cluster.muster("submit", "--priority", "urgent", tmp_path / "job.yaml")
    assert done.returncode == 2 and "'urgent'" in done.stderr and "line 5" not in done.stderr, done.stderr


def test_options_may_follow_a_spec_file(cluster, tmp_path):
    (tmp_path / "job.yaml").write_text("name: a\ncommand: [/bin/true]\n")
    done = cluster.muster("submit", tmp_path / "job.yaml", "-n", "b", "--set", "total_steps=3")
    assert done.returncode == 0, done.stderr
    spec = cluster.job(done.stdout.strip())["spec"]
    assert spec["name"] == "b" and spec["training"]["settings"]["total_steps"] == "3", spec
    done = cluster.muster("submit", tmp_path / "job.yaml", "/bin/false", "-n", "b")
    assert done.returncode == 2 and "both a spec file" in done.stderr, done.stderr
    assert "usage: muster submit [options] [SPEC | -- COMMAND...]\n" in cluster.muster("submit", "--help").stdout


def test_ranges_are_written_either_way(cluster):
    for words in ("1..2", "1-2"):
        job = cluster.submit("-N", words, "--", "/bin/true")
        assert cluster.job(job)["spec"]["nodes"]["max"] == 2
    done = cluster.muster("submit", "-N", "2..1", "--", "/bin/true")
    assert done.returncode == 2 and "--nodes is a number or a range" in done.stderr, done.stderr


def test_a_job_is_submitted_for_a_tenant(cluster):
    done = cluster.muster("submit", "--tenant", "nobody", "--", "/bin/true")
    assert done.returncode == 2 and "nobody" in done.stderr, done.stderr
    job = cluster.submit("--tenant", "default", "--", "/bin/true")
    assert cluster.job(job)["spec"]["tenant"] == "default"


def test_every_verb_has_an_example(cluster):
    verbs = [line.split()[0] for line in cluster.muster("help").stdout.splitlines() if line.startswith("  ")]
    assert len(verbs) > 25
    for verb in verbs:
        shown = cluster.muster(verb, "--help")
        assert shown.returncode == 0 and (verb == "shim" or "muster " + verb in shown.stdout.split("example", 1)[-1]), shown.stdout
        assert "example" in shown.stdout or verb == "shim", verb


def test_options_are_blamed_by_their_own_names(cluster):
    done = cluster.muster("run", "--set", "strategi=fp8", "--", "/bin/true")
    assert done.returncode == 2 and "--set strategi: no such setting" in done.stderr and "did you mean strategy?" in done.stderr, done.stderr
    done = cluster.muster("run", "--set", "training.total_steps=5", "--", "/bin/true")
    assert done.returncode == 2 and "did you mean total_steps?" in done.stderr, done.stderr
    done = cluster.muster("run", "--set", "mesh={}", "--", "/bin/true")
    assert done.returncode == 2 and "its settings are mesh.dp, " in done.stderr, done.stderr
    done = cluster.muster("submit", "--set", "ddp.hook=fp16", "--set", "strategy=zero2", "--", "/bin/true")
    assert done.returncode != 0 and "ddp.hook fp16 contradicts strategy zero2" in done.stderr, done.stderr
    done = cluster.muster("run", "--set", "mesh.dpp=2", "--", "/bin/true")
    assert done.returncode == 2 and "did you mean mesh.dp?" in done.stderr, done.stderr
    done = cluster.muster("run", "--slots", "0", "--", "/bin/true")
    assert done.returncode == 2 and "/bin/true" not in done.stderr, done.stderr


def test_logs_of_nothing_say_so(cluster):
    job = cluster.submit("-N", "1", "--workers-per-node", "2", "--", "/bin/true")
    cluster.wait_state(job, "succeeded")
    done = cluster.muster("logs", "-r", "5", job)
    assert done.returncode == 2 and "has no rank 5" in done.stderr and "0 to 1" in done.stderr, done.stderr
    done = cluster.muster("logs", job)
    assert done.returncode == 0 and done.stdout == "" and "no output" in done.stderr, done.stderr
    done = cluster.muster("scale", job, "1")
    assert "has already succeeded" in done.stderr, done.stderr


def test_a_job_posted_without_a_name_is_called_after_its_command(cluster):
    status, job = cluster.rest("POST", "/v1/jobs", {"command": ["python3", "no/train.py"]})
    assert status == 201 and job["spec"]["name"] == "train", job
    status, answer = cluster.rest("POST", "/v1/plan", {"spec": {"command": ["/bin/true"]}})
    assert status == 200, answer


def test_a_backup_that_cannot_be_written_says_why(cluster, tmp_path):
    done = cluster.muster("backup", tmp_path / "none" / "copy.db")
    assert done.returncode == 2 and str(tmp_path / "none") in done.stderr and "No such file" in done.stderr, done.stderr
    assert "running?" not in done.stderr, done.stderr


def test_impossible_requests_are_refused_with_what_would_fit(cluster):
    done = cluster.muster("submit", "--slots", "100", "--", "/bin/true")
    assert done.returncode == 2
    assert "100" in done.stderr and "4" in done.stderr, done.stderr
    done = cluster.muster("submit", "--slots", "100000", "--", "/bin/true")
    assert done.returncode == 2 and "slots" in done.stderr, done.stderr
    done = cluster.muster("submit", "--memory", "900TiB", "--", "/bin/true")
    assert done.returncode == 2 and "900 TiB" in done.stderr, done.stderr
    still_fine(cluster)


def test_too_deep_and_too_large_specs(cluster, tmp_path):
    deep = "name: a\ncommand: [/bin/true]\nenv: " + "{a: " * 500 + "1" + "}" * 500 + "\n"
    done = submit_text(cluster, tmp_path, deep)
    assert done.returncode == 2 and "deep" in done.stderr, done.stderr
    large = "name: a\ncommand: [/bin/true, " + "x" * (2 << 20) + "]\n"
    done = submit_text(cluster, tmp_path, large)
    assert done.returncode == 2 and ("KiB" in done.stderr or "large" in done.stderr)
    status, answer = cluster.rest("POST", "/v1/jobs", b'{"spec":' + b"[" * 200000 + b"}")
    assert status == 400 and answer["error"]["code"] == "INVALID_ARGUMENT", answer
    status, answer = cluster.rest("POST", "/v1/jobs", b'{"name":"' + b"x" * (3 << 20) + b'"}')
    assert status in (400, 413, 429), answer
    still_fine(cluster)


def send(address, data, read=True, tls=False):
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=HANG_SECONDS) as connection:
        connection.settimeout(2)
        try:
            connection = secure(connection) if tls else connection
            connection.sendall(data)
            if read:
                return connection.recv(65536)
        except OSError:
            pass
    return b""


def test_garbage_and_truncated_bodies_on_both_ports(cluster):
    running = cluster.submit("--", "sleep", "3600")
    cluster.wait_state(running, "running")
    garbage = random.Random(1).randbytes(1 << 20)
    rpc = cluster.rpc.split("//")[1]
    for address in (rpc, cluster.http):
        for piece in (garbage, garbage[:100], b"\0" * 4096, b""):
            send(address, piece)
    # A well-formed start of the SP protocol, then garbage lengths.
    send(rpc, b"\0SP\0\0\x30\0\0" + b"\xff" * 64, tls=True)
    send(rpc, b"\0SP\0\0\x30\0\0" + (64).to_bytes(8, "big") + os.urandom(64), tls=True)
    send(cluster.http, b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{\"spec\"", read=False)
    send(cluster.http, b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nZZZ\r\n")
    status, answer = cluster.rest("POST", "/v1/jobs", b'{"name": "a", "comm')
    assert status == 400 and answer["error"]["code"] == "INVALID_ARGUMENT"
    assert cluster.coordinator.poll() is None
    assert cluster.job(running)["state"] == "running"
    cluster.muster("cancel", running, check=True)
    cluster.wait_state(running, "cancelled", seconds=25)
    still_fine(cluster)


def test_tokens_are_asked_for(cluster):
    status, answer = cluster.rest("GET", "/v1/jobs", raw=True)
    assert status == 401
    status, answer = cluster.rest("GET", "/v1/jobs", token="mst_admin_" + "A" * 43)
    assert status == 401
    agent = (cluster.data / "agent.token").read_text().strip()
    status, answer = cluster.rest("GET", "/v1/jobs", token=agent)
    assert status == 403, answer
    for name in ("admin.token", "agent.token"):
        assert (cluster.data / name).stat().st_mode & 0o777 == 0o600
    done = subprocess.run([cluster.muster_path, "ps"], capture_output=True, text=True, timeout=HANG_SECONDS,
                          env={**os.environ, "MUSTER_ADDR": cluster.rpc, "MUSTER_TOKEN": "mst_admin_wrong", "HOME": str(cluster.folder)})
    assert done.returncode == 3 and "token" in done.stderr


def test_unknown_things_are_named(cluster):
    assert cluster.muster("shwo").returncode == 2
    assert "show" in cluster.muster("shwo").stderr
    done = cluster.muster("show", "nobody")
    assert done.returncode == 2 and "nobody" in done.stderr
    done = cluster.muster("ps", "--stat", "x")
    assert done.returncode == 2 and "--state" in done.stderr
    status, answer = cluster.rest("GET", "/v1/jbos")
    assert status == 404 and answer["error"]["message"]
    status, answer = cluster.rest("DELETE", "/v1/jobs")
    assert status in (404, 405)


def test_nobody_answers(tmp_path):
    done = subprocess.run([str(Cluster(tmp_path).muster_path), "ps"], capture_output=True, text=True, timeout=HANG_SECONDS,
                          env={**os.environ, "MUSTER_ADDR": "tcp://127.0.0.1:1", "MUSTER_TOKEN": "x", "HOME": str(tmp_path)})
    assert done.returncode == 3 and "127.0.0.1:1" in done.stderr


def test_a_second_coordinator_on_the_same_folder_is_refused(cluster):
    done = subprocess.run([cluster.muster_path, "coordinator", "--data", str(cluster.data), "--rpc", "tcp://127.0.0.1:0", "--http", "127.0.0.1:0"],
                          capture_output=True, text=True, timeout=HANG_SECONDS)
    assert done.returncode == 3
    assert str(cluster.coordinator.pid) in done.stderr, done.stderr
    still_fine(cluster)


def test_a_full_disk_loses_nothing_acknowledged(make_cluster, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a small file system")
    cluster = make_cluster(nodes=0, coordinator=False)
    cluster.data.mkdir(parents=True)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m,mode=0700", "tmpfs", str(cluster.data)], capture_output=True).returncode:
        pytest.skip("mounting a tmpfs is not allowed here")
    try:
        cluster.start_coordinator()
        accepted, refused = [], None
        large = ("--env", "FILL=" + "x" * 60000, "--", "/bin/true")
        for i in range(400):
            done = cluster.muster("submit", "--key", f"k{i}", *large)
            if done.returncode == 0:
                accepted.append(done.stdout.strip())
            else:
                refused = done
                break
        assert refused is not None, "3 MiB took 400 jobs of 60 kB"
        assert "space" in refused.stderr or "full" in refused.stderr, refused.stderr

        def told(verb):
            cluster.muster("submit", *large)  # a small change may have found room since the last one
            return "cannot store changes: " in cluster.muster(verb, check=True).stderr
        for verb in ("ps", "nodes"):
            wait_for(f"`{verb}` to report it", 20, lambda: told(verb))
        if cluster.coordinator.poll() is None:
            cluster.kill_coordinator()
        subprocess.run(["mount", "-o", "remount,size=64m", str(cluster.data)], check=True)
        cluster.start_coordinator()
        known = {j["id"] for j in cluster.rest("GET", "/v1/jobs?limit=1000")[1]["jobs"]}
        assert set(accepted) <= known
        assert cluster.muster("submit", "--", "/bin/true").returncode == 0
    finally:
        cluster.stop()
        subprocess.run(["umount", str(cluster.data)], check=False)


def greeting(stranger):
    with secure(stranger) as connection:
        return connection.recv(8)


def test_connections_are_not_bounded_by_the_shell_s_limit_of_descriptors(make_cluster):
    cluster = make_cluster(nodes=0, coordinator=False)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, hard))
    try:
        cluster.start_coordinator()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    host, port = cluster.rpc.split("://")[1].rsplit(":", 1)
    strangers = [socket.create_connection((host, int(port)), timeout=HANG_SECONDS) for _ in range(300)]
    still = cluster.muster("nodes")
    assert still.returncode == 0, still.stderr
    # Side by side: one that has said nothing for ten seconds is ended.
    with ThreadPoolExecutor(len(strangers)) as pool:
        assert set(pool.map(greeting, strangers)) == {b"\0SP\0\0\x31\0\0"}
