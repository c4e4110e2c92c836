"""Secrets: where their values are, and where they must never be. The value is looked for everywhere that others look."""
import json
import os
import re
import shutil
import subprocess
import textwrap
import time
from pathlib import Path

import pytest
from localcluster import HANG_SECONDS, MUSTER, Cluster, kill, wait_for
from test_isolation import as_tenant, run, submit

VALUE = "hf_SeCrEtVaLuE0123456789"
SECOND = "first line of a key\nsecond-line-of-it\nx"


def set_secret(cluster, tenant, name, value, check=True):
    done = subprocess.run([cluster.muster_path, "secret", "set", name], input=value, capture_output=True, text=True, timeout=HANG_SECONDS,
                          env={**cluster.environment(), "MUSTER_TOKEN": cluster.tokens[tenant]}, cwd="/")
    assert not check or done.returncode == 0, done.stderr
    assert value.strip() not in done.stdout + done.stderr
    return done


def files_with(value, *folders, but=()):
    """Files that hold the value, in clear or as UTF-16, but those whose path has one of the words."""
    wanted = [value.encode(), value.encode("utf-16-le")]
    found = []
    for folder in folders:
        for path in Path(folder).rglob("*"):
            if path.is_file() and not any(word in str(path) for word in but):
                data = path.read_bytes()
                found += [str(path)] * any(text in data for text in wanted)
    return found


TRAIN = """
import os, sys, time
value = os.environ["HF_TOKEN"]
folder = os.environ["MUSTER_SECRETS"]
path = os.path.join(folder, "HF_TOKEN")
print("same", open(path).read() == value, oct(os.stat(path).st_mode & 0o777), oct(os.stat(folder).st_mode & 0o777), os.stat(path).st_uid == os.getuid())
print("length", len(value), "key", len(os.environ["DEPLOY_KEY"]), sorted(os.listdir(folder)))
print("whole:", value, value + value, "end")
for part in (b"split: ", value[:3].encode(), value[3:9].encode(), value[9:].encode(), b" end\\n"):
    os.write(1, part)
    time.sleep(0.05)
os.write(1, b"half: " + value[:10].encode() + b"\\n")
print("x" * 8185 + value)
print(os.environ["DEPLOY_KEY"])
print(value, file=sys.stderr)
print(f"pid={os.getpid()}", flush=True)
"""


def start(cluster, tenant="red", more="\ntime.sleep(600)", *options):
    set_secret(cluster, tenant, "hf", VALUE)
    set_secret(cluster, tenant, "deploy", SECOND)
    job = submit(cluster, tenant, TRAIN + more, "--secret", "HF_TOKEN=hf", "--secret", "DEPLOY_KEY=deploy", *options)
    return job


def wait_output(cluster, job, word="pid="):
    return wait_for(f"{job} says {word}", 60, lambda: (text := as_tenant(cluster, "red", "logs", job)) and word in text.stdout and text.stdout + text.stderr)


def test_m10_a_value_is_in_the_workers_environment_and_its_private_file_and_nowhere_else(make_shared):
    cluster = make_shared()
    job = start(cluster)
    text = wait_output(cluster, job)
    assert f"same True 0o400 0o700 True\nlength {len(VALUE)} key {len(SECOND)} ['DEPLOY_KEY', 'HF_TOKEN']" in text, text
    pid = int(text.split("pid=")[1].split()[0])
    # Output: whole, twice in a row, in several writes, at the cut of a long line, of several lines.
    assert "whole: *** ****** end" in text and "split: *** end" in text, text
    assert "half: " + VALUE[:10] + "\n" in text, "what is no whole value is not masked"
    assert VALUE not in text and VALUE[:9] not in text.replace("half: " + VALUE[:10], "")
    assert "\n***\n***\nx\n" in text, "each line of a value of six bytes or more"
    # Files: the data folder, its write-ahead log and logs; the node's but for the private folder.
    node = cluster.folder / "nodes/node1"
    private = node / f"work/{job}.1.secrets"
    backup = cluster.folder / "backup.db"
    cluster.muster("backup", str(backup), check=True)
    assert (cluster.data / "muster.db-wal").is_file()
    for value in (VALUE, "second-line-of-it"):
        assert files_with(value, cluster.folder, but=[".secrets/"]) == []
        assert len(files_with(value, private)) == 1
    assert (private / "HF_TOKEN").stat().st_uid >= 1900000000
    assert (cluster.data / "secrets.key").stat().st_mode & 0o777 == 0o600
    key = [line for line in (cluster.data / "secrets.key").read_text().splitlines() if not line.startswith("#")]
    assert len(key) == 1 and len(key[0]) == 64
    assert files_with(key[0], cluster.folder, but=["secrets.key"]) == [], "the key is not in a backup either"
    # What can be asked: as the owner, as an administrator, of REST.
    for words in (["show", "-o", "yaml", job], ["show", "-o", "json", job], ["ps", "-o", "json"], ["why", job], ["events"],
                  ["events", "--replay", "-o", "json"], ["events", "--audit", "-o", "json"], ["secret", "list", "-o", "yaml"], ["logs", job]):
        done = cluster.muster(*words, check=True)
        assert VALUE not in done.stdout + done.stderr, words
        assert "second-line-of-it" not in done.stdout + done.stderr, words
    for path in (f"/v1/jobs/{job}", "/v1/jobs", f"/v1/jobs/{job}/logs", f"/v1/jobs/{job}/events", f"/v1/jobs/{job}/why", "/v1/secrets", "/v1/events",
                 "/v1/events/replay", "/v1/audit", "/v1/overview", "/v1/tenants", "/v1/nodes", "/metrics", "/openapi.json"):
        status, body = cluster.rest("GET", path, raw=True, token=cluster.token)
        assert status == 200 and VALUE not in body and "second-line-of-it" not in body, path
    shown = cluster.muster("show", "-o", "yaml", job, check=True).stdout
    assert "secrets:" in shown and "HF_TOKEN: hf" in shown, shown
    audit = cluster.muster("events", "--audit", check=True).stdout
    assert "SetSecret" in audit and "red/hf" in audit, audit
    assert cluster.rest("GET", "/v1/secrets?tenant=red")[1]["secrets"][1]["changed_by"] == "red-ci"
    # The worker's environment has it, and another tenant's user on the same node reads neither that nor the file.
    assert VALUE.encode() in Path(f"/proc/{pid}/environ").read_bytes()
    said = run(cluster, "blue", f"""
        for path in ("/proc/{pid}/environ", "{private}/HF_TOKEN", "{private}", "{node}/runs/{job}.1/launch.json"):
            try:
                print("READ", open(path).read())
            except OSError as error:
                print("refused", type(error).__name__)
        """)
    assert said.count("refused") == 4 and "READ" not in said, said
    cluster.muster("cancel", job, check=True)
    cluster.wait_state(job, "cancelled")
    wait_for("the private folder is gone", 30, lambda: not private.exists())
    assert files_with(VALUE, cluster.folder) == []


def test_who_may_do_what_with_secrets(make_shared):
    cluster = make_shared()
    set_secret(cluster, "red", "hf", VALUE)
    cluster.tokens["eyes"] = cluster.muster("token", "create", "eyes", "--tenant", "red", "--role", "viewer", check=True).stdout.strip()
    cluster.tokens["op"] = cluster.muster("token", "create", "op", "--role", "operator", check=True).stdout.strip()
    assert "hf" in as_tenant(cluster, "eyes", "secret", "list").stdout
    assert "hf" in as_tenant(cluster, "op", "secret", "list").stdout
    assert "no secrets" in as_tenant(cluster, "blue", "secret", "list").stderr + as_tenant(cluster, "blue", "secret", "list").stdout
    for who in ("eyes", "op"):
        assert set_secret(cluster, who, "hf", "other-value", check=False).returncode == 3
        assert as_tenant(cluster, who, "secret", "rm", "hf").returncode == 3
    for path, body, method in (("/v1/secrets/hf", {"tenant": "red", "value": "stolen-value"}, "PUT"), ("/v1/secrets/hf?tenant=red", None, "DELETE")):
        assert cluster.rest(method, path, body, token=cluster.tokens["blue"])[0] == 403, path
    assert cluster.rest("GET", "/v1/secrets?tenant=red", token=cluster.tokens["blue"])[0] == 404
    assert cluster.rest("POST", "/v1/secrets:rekey", {}, token=cluster.tokens["red"])[0] == 403
    # Another tenant cannot name it in a job: not as its own, not by naming the tenant.
    done = as_tenant(cluster, "blue", "submit", "--secret", "T=hf", "--", "/bin/true")
    assert done.returncode == 2 and "tenant blue has no secret 'hf'" in done.stderr, done.stderr
    status, answer = cluster.rest("POST", "/v1/jobs", {"command": ["/bin/true"], "tenant": "red", "secrets": {"T": "hf"}}, token=cluster.tokens["blue"])
    assert status == 403, answer
    # Whatever a refusal repeats, it is not a value.
    status, answer = cluster.rest("POST", "/v1/jobs", {"command": ["/bin/true"], "secrets": {"HF_TOKEN": VALUE}}, token=cluster.tokens["red"])
    assert status == 400 and VALUE not in json.dumps(answer) and "muster secret set" in json.dumps(answer), answer
    status, answer = cluster.rest("PUT", f"/v1/secrets/hf?value={VALUE}", token=cluster.tokens["red"])
    assert status == 400 and "belongs in the body" in json.dumps(answer), answer
    for value in ("", "x" * 65537, "nul\0byte", 7):
        status, answer = cluster.rest("PUT", "/v1/secrets/hf", {"value": value}, token=cluster.tokens["red"])
        assert status in (400, 413, 429), (status, answer)
    status, answer = cluster.rest("PUT", "/v1/secrets/hf", {"value": VALUE + "2"}, token=cluster.tokens["red"])
    assert status == 200 and "value" not in answer and answer["name"] == "hf" and answer["tenant"] == "red", answer
    status, answer = cluster.rest("DELETE", "/v1/secrets/hf", token=cluster.tokens["red"])
    assert status == 200 and answer["name"] == "hf", answer
    assert cluster.rest("DELETE", "/v1/secrets/hf", token=cluster.tokens["red"])[0] == 404
    cluster.muster("tenant", "set", "red", "--quota", "secrets=1", check=True)
    set_secret(cluster, "red", "one", VALUE)
    assert "quota secrets" in set_secret(cluster, "red", "two", VALUE, check=False).stderr
    set_secret(cluster, "red", "one", VALUE + "3")


def test_a_failing_program_tells_no_secret_in_its_reason(make_shared):
    cluster = make_shared()
    job = start(cluster, more='\nraise SystemExit("cannot log in with " + value)')
    ended = cluster.wait_state(job, "failed", 60)
    assert "cannot log in with ***" in json.dumps(ended), ended
    assert VALUE not in json.dumps(ended) + cluster.muster("why", job).stdout
    assert files_with(VALUE, cluster.folder) == []


def test_a_secret_that_was_removed_fails_the_start_by_name_and_costs_the_node_nothing(make_shared):
    cluster = make_shared()
    set_secret(cluster, "red", "hf", VALUE)
    first = submit(cluster, "red", "import time; time.sleep(600)", "--slots", "6")
    cluster.wait_state(first, "running")
    job = submit(cluster, "red", "print('never')", "--secret", "HF_TOKEN=hf", "--restarts", "0")
    assert as_tenant(cluster, "red", "secret", "rm", "hf").returncode == 0
    cluster.muster("cancel", first, check=True)
    ended = cluster.wait_state(job, "failed", 60)
    assert "secret 'hf' of tenant red, for HF_TOKEN, was removed" in ended["reason"]["text"] and "muster secret set hf" in json.dumps(ended), ended
    assert cluster.rest("GET", "/v1/nodes")[1]["nodes"][0]["state"] == "ready"
    set_secret(cluster, "red", "hf", VALUE)
    assert "it is ***" in run(cluster, "red", "import os; print('it is', os.environ['HF_TOKEN'])", "--secret", "HF_TOKEN=hf")


def test_workers_that_start_later_have_the_value_of_then_and_agents_may_be_restarted(make_shared):
    cluster = make_shared()
    set_secret(cluster, "red", "hf", "old-value-of-it")
    job = submit(cluster, "red", """
        import hashlib, os, time
        print("digest", hashlib.sha256(os.environ["HF_TOKEN"].encode()).hexdigest()[:8], f"pid={os.getpid()}", flush=True)
        time.sleep(600)
        """, "--secret", "HF_TOKEN=hf", "--on-failure", "retry")
    first = wait_output(cluster, job)
    with cluster.agent_away("node1"):
        pass
    cluster.wait_nodes(1)
    cluster.wait_state(job, "running")
    assert cluster.job(job)["restarts"] == 0
    set_secret(cluster, "red", "hf", "new-value-of-it")
    kill(int(first.split("pid=")[1].split()[0]), 9)
    text = wait_for("it was started again", 60, lambda: (said := as_tenant(cluster, "red", "logs", job).stdout).count("pid=") == 2 and said)
    digests = [line.split()[1] for line in text.splitlines() if line.startswith("digest")]
    import hashlib
    assert digests == [hashlib.sha256(word).hexdigest()[:8] for word in (b"old-value-of-it", b"new-value-of-it")], text
    used = cluster.rest("GET", "/v1/secrets")[1]["secrets"][0]["used_wall_ms"]
    assert abs(int(used) / 1000 - time.time()) < 3600


def restart(cluster, *extra, environment=()):
    cluster.coordinator.terminate()
    cluster.coordinator.wait()
    before = dict(os.environ)
    os.environ.update(dict(environment))
    try:
        cluster.start_coordinator(extra=extra)
    finally:
        os.environ.clear()
        os.environ.update(before)


def test_a_lost_or_foreign_key_is_said_and_other_work_goes_on(make_shared):
    cluster = make_shared()
    set_secret(cluster, "red", "hf", VALUE)
    key, saved = cluster.data / "secrets.key", cluster.folder / "saved.key"
    shutil.move(key, saved)
    restart(cluster)
    assert not key.exists(), "no new key is made beside secrets of another"
    assert "done" in run(cluster, "red", "print('done')"), "jobs without secrets go on"
    done = set_secret(cluster, "red", "two", "another-value", check=False)
    assert done.returncode != 0 and "cannot be opened" in done.stderr and "put the key back" in done.stderr, done.stderr
    assert "its key is not here" in as_tenant(cluster, "red", "secret", "list").stdout
    done = cluster.muster("secret", "rekey")
    assert done.returncode != 0 and "cannot be opened" in done.stderr, done.stderr
    key.write_text("ab" * 32 + "\n")
    key.chmod(0o600)
    done = set_secret(cluster, "red", "two", "another-value", check=False)
    assert done.returncode != 0 and "has not the key that sealed" in done.stderr, done.stderr
    job = submit(cluster, "red", "import os; print('it is', os.environ['T'])", "--secret", "T=hf", "--restarts", "0")
    ended = cluster.wait_state(job, "failed", 60)
    assert "cannot be opened" in ended["reason"]["text"] and cluster.rest("GET", "/v1/nodes")[1]["nodes"][0]["state"] == "ready", ended
    # Put back while it runs, it counts at once.
    shutil.copy(saved, key)
    key.chmod(0o644)
    assert "can be read by others" in set_secret(cluster, "red", "two", "another-value", check=False).stderr
    key.chmod(0o600)
    assert "it is ***" in run(cluster, "red", "import os; print('it is', os.environ['T'])", "--secret", "T=hf")
    # Lost for good: dropped by an administrator's word, then a new key.
    key.unlink()
    restart(cluster)
    answer = json.loads(cluster.muster("secret", "rekey", "--drop-lost", "-o", "json", check=True).stdout)
    assert (answer["dropped"], answer["sealed"]) == (1, 0), answer
    set_secret(cluster, "red", "hf", VALUE)
    assert "it is ***" in run(cluster, "red", "import os; print('it is', os.environ['T'])", "--secret", "T=hf")


def test_rekeying_and_restoring_a_backup(make_shared, open_folder):
    cluster = make_shared()
    set_secret(cluster, "red", "hf", VALUE)
    first = (cluster.data / "secrets.key").read_text()
    answer = json.loads(cluster.muster("secret", "rekey", "-o", "json", check=True).stdout)
    assert (answer["sealed"], answer["dropped"], answer["place"]) == (1, 0, str(cluster.data / "secrets.key")), answer
    second = (cluster.data / "secrets.key").read_text()
    assert second != first and len(second.splitlines()) == 2 and first.splitlines()[1] not in second
    assert "it is ***" in run(cluster, "red", "import os; print('it is', os.environ['T'])", "--secret", "T=hf")
    backup = open_folder / "backup.db"
    cluster.muster("backup", str(backup), check=True)
    assert files_with(VALUE, open_folder) == []
    # A backup without its key: listed, not opened; the keys may come from the environment.
    other = Cluster(open_folder / "restored")
    other.folder.mkdir()
    try:
        os.environ["MUSTER_SECRETS_KEY"] = "cd" * 32 + "," + second.splitlines()[1]
        try:
            other.start_coordinator(extra=["--restore", str(backup)])
        finally:
            del os.environ["MUSTER_SECRETS_KEY"]
        shutil.copy(cluster.data / "admin.token", other.data / "admin.token")
        listed = other.rest("GET", "/v1/secrets")[1]["secrets"]
        assert [(one["name"], one["lost"]) for one in listed] == [("hf", False)], listed
        status, answer = other.rest("POST", "/v1/secrets:rekey", {})
        assert (status, answer["sealed"], answer["place"]) == (200, 1, "MUSTER_SECRETS_KEY"), answer
        assert not (other.data / "secrets.key").exists()
        restart(other)
        assert other.rest("GET", "/v1/secrets")[1]["secrets"][0]["lost"] is True
        restart(other, environment={"MUSTER_SECRETS_KEY": "cd" * 32})
        assert other.rest("GET", "/v1/secrets")[1]["secrets"][0]["lost"] is False
    finally:
        other.stop()
    done = subprocess.run([MUSTER, "coordinator", "--data", str(open_folder / "bad")], env={**os.environ, "MUSTER_SECRETS_KEY": "nonsense-key"},
                          capture_output=True, text=True, timeout=HANG_SECONDS)
    assert done.returncode == 2 and "MUSTER_SECRETS_KEY" in done.stderr and "nonsense-key" not in done.stderr, done.stderr


def test_a_row_that_was_changed_or_moved_does_not_open(make_shared):
    """Whoever may write the file cannot give a secret of one tenant to another, nor one name the value of another."""
    import sqlite3
    cluster = make_shared()
    set_secret(cluster, "red", "hf", VALUE)
    set_secret(cluster, "blue", "hf", "value-of-blue")
    cluster.coordinator.terminate()
    cluster.coordinator.wait()
    with sqlite3.connect(cluster.data / "muster.db") as db:
        db.execute("UPDATE secrets SET sealed = (SELECT sealed FROM secrets WHERE tenant = 'red') WHERE tenant = 'blue'")
    db.close()
    cluster.start_coordinator()
    cluster.wait_nodes(1)
    job = submit(cluster, "blue", "import os; print('it is', os.environ['T'])", "--secret", "T=hf", "--restarts", "0")
    ended = cluster.wait_state(job, "failed", 60)
    assert "it was changed since it was sealed" in ended["reason"]["text"], ended
    assert "it is ***" in run(cluster, "red", "import os; print('it is', os.environ['T'])", "--secret", "T=hf")


def test_env_that_looks_like_a_secret_is_warned_of_once_without_its_value(make_cluster):
    cluster = make_cluster(nodes=0)
    for words, named in (
            (["--env", f"HF_TOKEN={VALUE}"], "HF_TOKEN looks"),
            (["--env", "OTHER=ghp_abcdefghijklmnop123"], "OTHER looks"),
            (["--env", f"HF_TOKEN={VALUE}", "--env", "WANDB_API_KEY=0123456789abcdef"], "HF_TOKEN, WANDB_API_KEY look")):
        done = cluster.muster("submit", *words, "--", "/bin/true")
        assert done.returncode == 0 and len(re.findall("like (a secret|secrets)\\b", done.stderr)) == 1 and named in done.stderr, done.stderr
        assert VALUE not in done.stderr and "ghp_abc" not in done.stderr
        assert "muster secret set " in done.stderr and "muster submit --secret " in done.stderr
    quiet = ["--env", "TOKENIZERS_PARALLELISM=false", "--env", "MAX_TOKEN=512", "--env", "SSH_KEY=/home/a/.ssh/id", "--env", "EMPTY_TOKEN=", "--env", "PATH_X=a"]
    assert "secret" not in cluster.muster("submit", *quiet, "--", "/bin/true").stderr


@pytest.mark.parametrize("words,why", [
    (["--secret", "RANK=hf"], "RANK cannot be a secret"), (["--secret", "MUSTER_X=hf"], "MUSTER_X cannot be a secret"),
    (["--secret", "1X=hf"], "is no variable's name"), (["--secret", "A=hf", "--env", "A=b"], "A is in env and in secrets"),
    (["--secret", "A=Not_A_Name"], "secrets.A is not the name of a secret"), (["--secret", "just-a-value"], "--secret needs VARIABLE=NAME"),
    (["--secret", "A=hff"], "did you mean hf?")])
def test_specs_with_secrets_are_checked_when_they_are_submitted(make_cluster, words, why):
    cluster = make_cluster(nodes=0)
    cluster.muster("secret", "set", "hf", input=VALUE, check=True)
    done = cluster.muster("submit", *words, "--", "/bin/true")
    assert done.returncode == 2 and why in done.stderr, done.stderr
    assert "Not_A_Name" not in done.stderr and "just-a-value" not in done.stderr


def test_the_command_line_takes_a_value_from_a_terminal_without_showing_it(make_cluster):
    import pty
    import signal
    cluster = make_cluster(nodes=0)
    pid, terminal = pty.fork()
    if pid == 0:
        signal.alarm(300)  # a limit of what hangs
        os.execve(cluster.muster_path, ["muster", "secret", "set", "hf"], cluster.environment())
    shown = b""
    while b"not shown" not in shown:
        shown += os.read(terminal, 4096)
    os.write(terminal, VALUE.encode() + b"\n")
    try:
        while chunk := os.read(terminal, 4096):
            shown += chunk
    except OSError:
        pass
    assert os.waitpid(pid, 0)[1] == 0, shown
    assert b"is set" in shown and VALUE.encode() not in shown, shown
    assert VALUE not in textwrap.dedent(cluster.muster("secret", "list", "-o", "json", check=True).stdout)
    path = cluster.folder / "value"
    path.write_text("from-a-file-value\n\n")
    assert cluster.muster("secret", "set", "f", "--from-file", path).returncode == 0
    assert cluster.muster("secret", "set", "f", "--from-file", path.parent / "absent").returncode == 2
    assert cluster.muster("secret", "set", "f", input="").returncode == 2
    assert cluster.muster("secret", "rm", "f", check=True).stdout.startswith("secret f of tenant default is removed")


def test_files_with_values_go_with_the_worker_also_where_no_agent_runs(make_shared):
    cluster = make_shared()
    job = start(cluster)
    pid = int(wait_output(cluster, job).split("pid=")[1].split()[0])
    private = cluster.folder / f"nodes/node1/work/{job}.1.secrets"
    agent = cluster.agents.pop("node1")
    agent.kill()
    agent.wait()
    assert sorted(path.name for path in private.iterdir()) == ["DEPLOY_KEY", "HF_TOKEN"]
    kill(pid, 9)
    wait_for("the private folder is gone", 60, lambda: not private.exists())
    cluster.start_agent("node1")
