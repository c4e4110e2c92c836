"""What people are told: last words of what failed, errors that trying again cannot mend, who waits for whom."""
import json

import pytest
from localcluster import ROOT, wait_for

GPT = ROOT / "build" / "examples" / "gpt"


def reasons_of(cluster, job):
    return json.loads(cluster.muster("why", "-o", "json", job, check=True).stdout)["reasons"]


def test_the_last_lines_of_a_failed_job_are_wherever_its_failure_is_told(cluster):
    job = cluster.submit("--restarts", "0", "--", "/bin/sh", "-c", "echo reading x; printf '\\033[31mno such file: x\\n' >&2; exit 3")
    cluster.wait_state(job, "failed")
    assert reasons_of(cluster, job)[0]["output"] == "reading x\n\033[31mno such file: x\n"
    for words in (["why", job], ["show", job], ["ps", "-a", "-v"], ["events", job]):
        told = cluster.muster(*words, check=True).stdout
        assert "│ reading x\n" in told and "│ \\x1b[31mno such file: x\n" in told, (words, told)
    status, answer = cluster.rest("GET", f"/v1/jobs/{job}")
    assert status == 200 and answer["reason"]["output"].endswith("no such file: x\n"), answer["reason"]
    assert "│" not in cluster.muster("ps", "-a", check=True).stdout


def test_a_program_that_is_not_there_is_not_tried_again(cluster, tmp_path):
    plain = tmp_path / "plain"
    plain.write_text("#!/bin/sh\n")
    for command, what, hint in ((["/no/such/program"], "/no/such/program", "correct command"), ([str(plain)], "ermission", "chmod"),
                                (["/bin/sh", "-c", "no-such-program"], "code 127", "correct command")):
        job = cluster.submit("--", *command)
        cluster.wait_state(job, "failed")
        shown = cluster.job(job)
        assert shown.get("restarts", 0) == 0 and shown["reason"]["kind"] == "start_failed", shown["reason"]
        assert what in shown["reason"]["text"] and hint in shown["reason"]["hint"], shown["reason"]


def test_settings_that_are_refused_are_not_tried_again(cluster):
    job = cluster.submit("--", "/bin/sh", "-c", f"MUSTER_MIXED_PRECISION=bf17 exec {GPT} --steps 2")  # behind submit's back, which looks at `env`
    cluster.wait_state(job, "failed")
    shown = cluster.job(job)
    assert shown.get("restarts", 0) == 0 and shown["exit_code"] == 78, shown
    assert shown["reason"]["kind"] == "refused" and "bf17" in shown["reason"]["output"], shown["reason"]


@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_a_checkpoint_that_is_not_there_is_not_waited_for(cluster, tmp_path, strategy):
    missing = tmp_path / "step-00000200"
    job = cluster.submit("--set", f"strategy={strategy}", "--resume-from", missing, "--", GPT, "--steps", "2")
    cluster.wait_state(job, "failed")
    shown = cluster.job(job)
    assert shown.get("restarts", 0) == 0 and shown["exit_code"] == 78, shown
    assert shown["reason"]["kind"] == "refused" and str(missing) in shown["reason"]["output"], shown["reason"]


def test_a_crash_is_still_tried_again(cluster, tmp_path):
    mark = tmp_path / "mark"
    job = cluster.submit("--restarts", "5", "--", "/bin/sh", "-c", f"test -e {mark} || {{ touch {mark}; exit 1; }}")
    assert cluster.wait_state(job, "succeeded")["restarts"] == 1
    text = cluster.rest("GET", "/metrics", raw=True, token=cluster.token)[1]
    assert "\nmuster_restarts_total 1\n" in text and "\nmuster_recoveries_total 1\n" in text, text


def test_who_gave_way_says_so_while_it_waits(make_cluster):
    cluster = make_cluster(nodes=1, slots=1)
    low = cluster.submit("--name", "low", "--priority", "low", "--", "sleep", "3600")
    cluster.wait_state(low, "running")
    high = cluster.submit("--name", "high", "--priority", "high", "--", "sleep", "3600")
    waiting = cluster.wait_state(low, "queued")
    assert waiting["preempted_by"] == high and int(waiting["preempted_wall_ms"]) > 0
    told = cluster.muster("why", low, check=True).stdout
    assert f"job {high} (high)" in told, told
    first, *rest = told.splitlines()
    assert first == "low is queued:", told
    texts = [reason["text"] for reason in reasons_of(cluster, low)]
    assert len(set(texts)) == len(texts) and sum(texts[0] in line for line in rest if line[:6].strip().rstrip(".").isdigit()) == 1, told
    events = cluster.muster("events", low, check=True).stdout
    assert "rank 0 was asked to stop" in events and "worker_failed" not in events, events
    wait_for("the other runs", 10, lambda: cluster.job(high)["state"] == "running")


def test_an_emptied_node_says_that_it_is(make_cluster):
    cluster = make_cluster(nodes=1, slots=1)
    job = cluster.submit("--", "sleep", "3600")
    cluster.wait_state(job, "running")
    cluster.muster("drain", "node1", check=True)

    def node():
        return json.loads(cluster.muster("nodes", "-o", "json", check=True).stdout)["nodes"][0]
    wait_for("the node is emptied", 20, lambda: node()["state"] == "drained")
    assert "muster uncordon node1" in node()["reason"]["hint"], node()
    cluster.muster("uncordon", "node1", check=True)
    wait_for("the node is used again", 20, lambda: cluster.job(job)["state"] == "running")
