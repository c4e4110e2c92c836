"""muster.Client and muster.run beside a real coordinator: every call typed from OpenAPI, streams, refusals, functions as jobs."""
import json
import os
import subprocess
import sys
import textwrap

import pytest
from localcluster import HANG_SECONDS, ROOT

sys.path.insert(0, str(ROOT / "python"))
import muster  # noqa: E402


@pytest.fixture
def client(cluster):
    return muster.Client(f"{cluster.scheme}://{cluster.http}", cluster.token)


def test_a_job_is_submitted_followed_and_awaited(client):
    job = client.submit(["sh", "-c", "echo one; echo two >&2; exit 0"], name="talks", env={"A": "b"})
    lines = list(client.follow(job["id"]))
    assert sorted((line["text"], line["is_stderr"]) for line in lines) == [("one", False), ("two", True)]
    ended = client.wait(job["id"])
    assert (ended["state"], ended["spec"]["name"], ended["exit_code"]) == ("succeeded", "talks", 0)
    assert [one["id"] for one in client.list_jobs()["jobs"]] == [job["id"]]
    assert client.get_job("talks")["id"] == job["id"]
    assert client.who_am_i()["role"] == "admin" and client.is_alive() and client.get_overview(limit=1)


def test_states_are_watched_until_the_end(client):
    job = client.submit(["sleep", "60"])
    seen = []
    for now in client.watch(job["id"]):
        seen.append(now["state"])
        if now["state"] == "running":
            client.cancel_job(job["id"], reason="enough")
    assert seen[-1] == "cancelled" and client.wait(job["id"])["state"] == "cancelled"


def test_a_key_makes_one_job_of_two_submits(client):
    first, second = (client.submit(["true"], idempotency_key="k") for _ in range(2))
    assert first["id"] == second["id"]


def test_refusals_are_exceptions_with_the_coordinators_sentence(client, cluster):
    with pytest.raises(muster.NotFound):
        client.get_job("j99")
    with pytest.raises(muster.Error, match="prioriti"):
        client.submit(["true"], prioriti="high")
    with pytest.raises(muster.Error) as refused:
        muster.Client(client.address, "wrong").list_jobs()
    assert refused.value.code == 401
    with pytest.raises(muster.Unavailable, match="does not answer"):
        muster.Client("http://127.0.0.1:1", "x").submit_job({"command": ["true"]})


def test_the_address_and_token_are_those_of_muster_up(cluster, tmp_path, monkeypatch):
    for name in ("MUSTER_HTTP", "MUSTER_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    with pytest.raises(muster.Unavailable, match="MUSTER_HTTP"):
        muster.Client()
    current = tmp_path / "muster/current"
    current.mkdir(parents=True)
    (current / "http.url").write_text(f"{cluster.scheme}://{cluster.http}\n")
    (current / "admin.token").write_text(cluster.token + "\n")
    assert muster.Client().list_jobs()["jobs"] == []
    assert muster.Client("http://127.0.0.1:1").token == ""


def test_a_stream_that_breaks_goes_on_after_its_last_event(cluster, client, monkeypatch):
    job = client.submit(["sh", "-c", "for i in $(seq 50); do echo $i; sleep 0.05; done"])
    seen = []
    for line in client.follow(job["id"]):
        seen.append(line["text"])
        if len(seen) == 10:
            cluster.kill_coordinator()
            cluster.start_coordinator()
    assert seen == [str(i) for i in range(1, 51)]


FUNCTION = textwrap.dedent("""
    import os, sys
    import muster

    def square(x):
        print("rank", os.environ["RANK"], flush=True)
        return {"rank": int(os.environ["RANK"]), "value": x * x}

    def fails():
        raise ValueError("no such luck")
""")


def test_a_function_is_run_by_every_rank(make_cluster, tmp_path):
    cluster = make_cluster(nodes=2)
    (tmp_path / "mine.py").write_text(FUNCTION)
    program = ("import mine, muster, sys\n"
               "print(muster.run(mine.square, 3, nodes=2, quiet=True, python='/usr/bin/python3'))\n"
               "try:\n    muster.run(mine.fails, quiet=True, python='/usr/bin/python3')\n"
               "except muster.Error as error:\n    print(error)\n")
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "MUSTER_HTTP": f"{cluster.scheme}://{cluster.http}", "MUSTER_TOKEN": cluster.token}
    done = subprocess.run(["/usr/bin/python3", "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=HANG_SECONDS)
    assert done.returncode == 0, done.stderr
    results, failure = done.stdout.splitlines()
    assert json.loads(results.replace("'", '"')) == [{"rank": 0, "value": 9}, {"rank": 1, "value": 9}]
    assert failure.endswith("; rank 0 raised ValueError: no such luck"), failure
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".muster-run")]
