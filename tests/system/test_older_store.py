"""A store as the first release wrote it, made by hand: schema 1, documents without what came later, specs that submit
refuses today. A coordinator of today goes on with it."""
import hashlib
import json
import sqlite3
import time

from localcluster import ROOT, wait_for

THEN = int(time.time() - 3600) * 1000  # jobs that ended long ago are forgotten
LOST = "gone"  # the node that had the workers; it never comes back
SLIP = {"MUSTER_STRATGY": "fsdp", "KEPT": "1"}  # which submit refuses by now


def spec(name, command, nodes=(1, 1), **more):
    return {"name": name, "tenant": "default", "command": command, "nodes": {"min": nodes[0], "max": nodes[1]}, "workers_per_node": 1,
            "resources": {"slots": 1, "cpus": 1.0, "memory": ""}, "priority": "normal", "max_runtime": "",
            "restart": {"max": 5, "backoff": "1s..1m", "on_no_progress": "stop"}, "elastic": "in_place", "constraints": {}, "topology": "", "workdir": "/",
            **more}


def worker(uid, rank, state="joined", **more):
    return {"uid": uid, "node": LOST, "state": state, "aware": True, "slot": rank, "pid": 4000 + uid, "step": 120, "joined": 3, "joining": 3,
            "endpoint": f"127.0.0.1:{7000 + uid}", "born": 3, "generation": 3, "rank": rank, **more}


def running(world):
    return {"current": {"generation": 3, "world": world, "published": True, "joined": True, "master_node": LOST, "master_port": 29400, "since_ms": 5000},
            "current_members": list(range(1, world + 1)), "next_generation": 4, "next_uid": world + 1, "step": 120, "total_steps": 500, "loss": 2.5,
            "progress_step": 100, "restarts": 1, "started_wall_ms": THEN + 1000, "workers": [worker(i + 1, i) for i in range(world)]}


def reason(kind, text, **more):
    return {"kind": kind, "text": text, "rank": -1, **more}


ENV = ["/usr/bin/env"]
CHECKPOINT = {"step": 100, "generation": 3, "path": "/k/step-00000100", "wall_ms": THEN + 2000, "size_bytes": 4096, "world": 2}
TRAINING = {"strategy": "fsdp", "mixed_precision": "", "gradient_accumulation_steps": 4, "clip_grad_norm": 0.5, "seed": "5", "bucket_mib": 0.0,
            "mesh": {"dp": 0, "dp_replicate": 0, "dp_shard": 0, "cp": 0, "tp": 0, "pp": 0}}
# name, spec, document
JOBS = [
    ("queued", spec("slip", ENV, env=SLIP, training=TRAINING), {"next_generation": 1, "next_uid": 1, "idempotency_key": "then", "reason": reason("submitted", "accepted")}),
    ("running", spec("train", ENV, nodes=(1, 2), checkpoint={"dir": "/k", "every": "200 steps", "keep": 3}),
     {**running(2), "reason": reason("all_joined", "all 2 ranks have joined generation 3"), "checkpoints": [CHECKPOINT]}),
    ("restarting", spec("again", ENV), {"next_generation": 5, "next_uid": 5, "restarts": 2, "restarts_without_progress": 1, "same_cause": 1,
                                        "last_cause": "worker_failed 1 0", "reason": reason("worker_failed", "rank 0 on gone: exited with code 1", rank=0)}),
    ("succeeded", spec("done", ENV), {"next_generation": 2, "next_uid": 2, "ending": "succeeded", "step": 9, "ended_wall_ms": THEN + 3000,
                                      "reason": reason("succeeded", "all 1 ranks finished")}),
    ("failed", spec("broken", ENV), {"next_generation": 2, "next_uid": 2, "ending": "failed", "exit_code": 3, "ended_wall_ms": THEN + 4000,
                                     "reason": reason("crash_loop", "rank 0 on gone: exited with code 3", node=LOST)}),
    ("stopping", spec("stopped", ENV), {**running(1), "ending": "cancelled", "cancel_requested": True, "stop_deadline_ms": 9000,
                                        "workers": [worker(1, 0, should_stop=True)], "reason": reason("cancelled", "asked to end")}),
    ("preempting", spec("gaveway", ENV), {**running(1), "stop_deadline_ms": 9000, "workers": [worker(1, 0, should_stop=True)],
                                          "reason": reason("preempted", "gives way to job j1 (slip)")}),
]


def write_store(path, tokens):
    db = sqlite3.connect(path)
    db.executescript((ROOT / "coordinator/store/migrations/0001_start.sql").read_text())
    db.executescript("PRAGMA application_id = 1297306706; PRAGMA user_version = 1")
    db.execute("INSERT INTO meta VALUES ('cluster', 'c-older')")
    for role, token in tokens.items():
        db.execute("INSERT INTO tokens VALUES (?, ?, ?)", (hashlib.sha256(token.split(".")[0].encode()).digest(), role, THEN))
    for number, (state, what, document) in enumerate(JOBS, 1):
        head = {"id": f"j{number}", "sequence": number, "state": state, "submitted_wall_ms": THEN}
        db.execute("INSERT INTO jobs VALUES (?,?,?,?,?,?,?,?,?,?)",
                   (number, f"j{number}", what["name"], "default", state, THEN, document.get("ended_wall_ms", 0), bytes(32), json.dumps(what),
                    json.dumps({**head, **document})))
        db.execute("INSERT INTO events VALUES (?, ?, 'job_state', ?, '', 0, '', 'queued', ?)",
                   (number, THEN, f"j{number}", json.dumps(reason("submitted", "accepted"))))
    node = {"name": LOST, "state": "ready", "reason": reason("reported", "its agent reports"), "incarnation": "0xfedcba9876543210", "last_report": 70,
            "address": "127.0.0.1", "version": "0.0.1", "slots": 4, "cpus_milli": 4000, "memory_bytes": 1 << 33, "port_first": 29400, "port_last": 29500,
            "joined_wall_ms": THEN, "seen_wall_ms": THEN + 4000, "desired_version": 12}
    db.execute("INSERT INTO nodes VALUES (?, 'ready', ?)", (LOST, json.dumps(node)))
    db.commit()
    db.close()


def variables(cluster, job):
    return dict(line.split("=", 1) for line in cluster.muster("logs", "--rank", "0", job, check=True).stdout.splitlines() if "=" in line)


def test_a_store_of_the_first_release_goes_on(make_cluster):
    cluster = make_cluster(nodes=0)  # for tokens alone
    tokens = {role: (cluster.data / f"{role}.token").read_text().strip() for role in ("admin", "agent")}
    cluster.kill_coordinator()
    for path in [*cluster.data.glob("muster.db*"), cluster.data / "store.mark"]:
        path.unlink()
    write_store(cluster.data / "muster.db", tokens)
    cluster.start_coordinator()
    assert {role: (cluster.data / f"{role}.token").read_text().strip() for role in tokens} == tokens, "those of then still open the door"

    first = {job["id"]: job for job in cluster.rest("GET", "/v1/jobs?limit=100")[1]["jobs"]}
    assert [first[f"j{n}"]["spec"]["name"] for n in range(1, len(JOBS) + 1)] == [what["name"] for _, what, _ in JOBS]
    assert {n: first[f"j{n}"]["state"] for n in (4, 5)} == {4: "succeeded", 5: "failed"}
    train = cluster.job("j2")
    assert (train["state"], train["step"], train["world"], train["last_checkpoint"]["path"]) == ("running", "120", 2, CHECKPOINT["path"]), train
    assert cluster.job("j5")["exit_code"] == 3 and "exited with code 3" in cluster.muster("why", "j5", check=True).stdout
    assert cluster.job("j1")["spec"]["env"] == SLIP and "ledger" not in first["j4"]

    # Its submitter, who was never answered, asks again, in fewer words and with what submit refuses today.
    again = {"name": "slip", "command": ENV, "workdir": "/", "env": dict(reversed(SLIP.items())),
             "training": {"strategy": "fsdp", "gradient_accumulation_steps": 4, "clip_grad_norm": 0.5, "seed": "5"}}
    status, job = cluster.rest("POST", "/v1/jobs", again, headers={"Idempotency-Key": "then"})
    assert status in (200, 201) and job["id"] == "j1", job
    status, refused = cluster.rest("POST", "/v1/jobs", {**again, "env": {"KEPT": "2"}}, headers={"Idempotency-Key": "then"})
    assert status == 412 and "another job" in refused["error"]["message"], refused

    cluster.start_agent("node1", "--slots", "4")
    cluster.wait_nodes(1)
    for job in ("j1", "j3"):
        cluster.wait_state(job, "succeeded")
    seen = variables(cluster, "j1")
    assert {"KEPT": "1", "MUSTER_STRATGY": "fsdp", "MUSTER_STRATEGY": "fsdp", "MUSTER_SEED": "5", "MUSTER_GRADIENT_ACCUMULATION_STEPS": "4",
            "MUSTER_CLIP_GRAD_NORM": "0.5"}.items() <= seen.items(), seen
    assert not {"MUSTER_BUCKET_MIB", "MUSTER_MESH_DP", "MUSTER_MIXED_PRECISION"} & set(seen), "what was not said is not told"

    # Its node does not come back: what ran there goes on here, from its checkpoint; what was to end has ended.
    cluster.wait_state("j6", "cancelled", seconds=40)
    for job in ("j2", "j7"):
        cluster.wait_state(job, "succeeded", seconds=40)
    assert variables(cluster, "j2")["MUSTER_RESUME_FROM"] == CHECKPOINT["path"]
    assert int(cluster.job("j2")["generation"]) > 3 and cluster.submit("--", "/bin/true") == f"j{len(JOBS) + 1}"
    wait_for("what is stored is what is", 10, lambda: not json.loads(
        cluster.muster("events", "--replay", "--data", cluster.data / "muster.db", "--json", check=True).stdout)["differing"])

    cluster.kill_coordinator()
    cluster.start_coordinator()
    time.sleep(0.2)
    assert {job["id"]: job["state"] for job in cluster.rest("GET", "/v1/jobs?limit=100")[1]["jobs"]}["j2"] == "succeeded"
