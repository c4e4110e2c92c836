"""What a worker says of itself: checkpoints elsewhere than in its job's folder, steps and losses that cannot be (review L)."""
import json
from pathlib import Path

from localcluster import wait_for

HERE = Path(__file__).resolve().parent
LIAR = f"""
import json, os, struct, sys, time
sys.path.insert(0, {str(HERE)!r})
from wire import *
hub, token = os.environ["MUSTER_WORKER_SOCKET"], open(os.environ["MUSTER_WORKER_TOKEN_FILE"]).read().strip()
peer = Peer(hub if "://" in hub else "ipc://" + hub)
uid, generation = int(os.environ["MUSTER_UID"]), int(os.environ["MUSTER_GENERATION"])
me = text(1, os.environ["MUSTER_JOB"]) + number(2, uid)

def ask(method, payload):
    code, said, _ = peer.call("WorkerHub." + method, me + payload, token=token)
    assert code == "OK", (method, code, said)

def commit(path, step=1, wall_ms=0, phase=2):
    what = number(1, step) + text(2, path) + number(3, generation) + number(4, wall_ms) + number(5, 1) + number(6, 1)
    return peer.call("WorkerHub.CommitCheckpoint", me + number(3, phase) + text(4, what), token=token)[:2]

def progress(step, total, *metrics):
    told = b"".join(text(6, number(3, at) + number(4, wall) + text(5, name) + b"\x31" + struct.pack("<d", value)) for name, at, wall, value in metrics)
    return peer.call("WorkerHub.Progress", me + number(3, generation) + number(4, step) + number(5, total) + told, token=token)[:2]

def told(code):
    print(json.dumps(code), flush=True)
    time.sleep(300)

ask("Hello", number(3, os.getpid()) + text(4, "0.1.0"))
ask("Join", number(3, generation) + text(4, "tcp://127.0.0.1:9"))
"""


def lie(cluster, code, folder=None):
    spec = {"command": ["/usr/bin/python3", "-c", LIAR + code], **({"checkpoint": {"dir": folder}} if folder else {})}
    job = cluster.rest("POST", "/v1/jobs", spec)[1]["id"]
    said = wait_for("what the worker was answered", 60, lambda: cluster.muster("logs", job).stdout.strip())
    assert said.startswith("["), said
    return job, json.loads(said)


def kept(cluster, job):
    return [one["path"] for one in json.loads(cluster.muster("ckpt", job, "-o", "json", check=True).stdout).get("checkpoints", [])]


def test_l_a_checkpoint_lies_below_its_jobs_folder(cluster):
    bad = ["/etc/passwd", "/ckpt", "/ckpt/", "/ckpt/../etc/passwd", "/ckpt/a/../../x", "../../x", "step-1", "/ckptx/step-1", "/", "/ckpt/."]
    good = ["/ckpt/step-1", "/ckpt/./step-2", "/ckpt//sub/step-3", "/x/../ckpt/step-4"]
    job, codes = lie(cluster, f"told([[commit(p, 7, 0, phase) for phase in (1, 2) for p in {bad}], [commit(p, 8 + i) for i, p in enumerate({good})]])", "/ckpt")
    assert all(code == "PERMISSION_DENIED" and "is not below its job's checkpoint.dir" in told for code, told in codes[0]), codes[0]
    assert [code for code, _ in codes[1]] == ["OK"] * 4, codes[1]
    assert kept(cluster, job) == good[-3:]  # the folder's keep
    audit = cluster.muster("events", "--audit", "-o", "json", check=True).stdout
    assert "CommitCheckpoint" in audit and "/etc/passwd" in audit


def test_l_a_job_that_names_no_folder_commits_in_none_of_another_tenants(cluster):
    cluster.muster("tenant", "create", "red", check=True)
    cluster.muster("tenant", "set", "red", "--checkpoint-prefix", "/shared/red", check=True)
    job, codes = lie(cluster, "told([commit(p) for p in ('/shared/red/step-1', '/shared/x/../red/job/step-1', '/shared/mine/step-1')])")
    assert [code for code, _ in codes] == ["PERMISSION_DENIED", "PERMISSION_DENIED", "OK"], codes
    assert kept(cluster, job) == ["/shared/mine/step-1"]


def test_l_a_relative_folder_is_not_left(cluster):
    paths = ["ckpt/step-1", "ckpt/../../../etc/x", "other/step-1", "/etc/passwd", "/anywhere/ckpt/step-2"]
    _, codes = lie(cluster, f"told([commit(p, 1 + i) for i, p in enumerate({paths})])", "ckpt")
    assert [code for code, _ in codes] == ["OK", "PERMISSION_DENIED", "PERMISSION_DENIED", "PERMISSION_DENIED", "OK"], codes
    assert cluster.rest("POST", "/v1/jobs", {"command": ["/bin/true"], "checkpoint": {"dir": "../other"}})[0] == 201, "an administrator may"
    cluster.muster("tenant", "create", "red", check=True)
    red = cluster.muster("token", "create", "red", "--tenant", "red", check=True).stdout.strip()
    status, answer = cluster.rest("POST", "/v1/jobs", {"command": ["/bin/true"], "checkpoint": {"dir": "../other"}}, token=red)
    assert status == 403 and answer["error"]["field"] == "checkpoint.dir", answer


def test_l_steps_losses_and_times_that_cannot_be_break_nothing(cluster):
    huge = 2**64 - 1
    job, codes = lie(cluster, f"""
codes = [progress({huge}, 10), progress(3, {huge}), commit("/ckpt/step-1", {huge})]
codes.append(progress(5, 10, ("loss", 1, 10**18, float("nan")), ("loss", 2, 0, float("-inf")), ("loss", 3, 2**63 - 1, 1.5), ("loss", {huge}, 1, 7.0), ("loss", 4, 1, float("-inf"))))
codes.append(commit("/ckpt/step-5", 5, 2**62))
told(codes)""", "/ckpt")
    assert [code for code, _ in codes] == ["INVALID_ARGUMENT"] * 3 + ["OK"] * 2, codes
    assert "at most 9007199254740991" in codes[0][1]
    wait_for("what it told", 60, lambda: cluster.job(job).get("loss") is not None)
    now = cluster.job(job)
    assert int(now["step"]) == 5 and now["loss"] == "-Infinity" and "-inf" in cluster.muster("ps").stdout, now
    for _ in range(2):  # and after a restart
        status, metrics = cluster.rest("GET", f"/v1/jobs/{job}/metrics")
        points = next(series for series in metrics["series"] if series["name"] == "loss")["points"]
        assert status == 200 and [int(point["step"]) for point in points] == [1, 2, 3, 4], points
        assert all(0 < int(point["wall_ms"]) < 4e12 for point in points), points
        saved = cluster.rest("GET", f"/v1/jobs/{job}/checkpoints")[1]["checkpoints"]
        assert [one["path"] for one in saved] == ["/ckpt/step-5"] and 0 < int(saved[0]["wall_ms"]) < 4e12, saved
        for verb in ("ps", "show", "ckpt"):
            said = cluster.muster(verb, *([] if verb == "ps" else [job]))
            assert said.returncode == 0, said
        assert cluster.rest("GET", "/metrics")[0] == 200
        cluster.kill_coordinator()
        cluster.start_coordinator()
        cluster.wait_state(job, "running")
