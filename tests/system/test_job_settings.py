"""A job's training settings: every one of the table, checked at submit, told to the workers as the job's own."""
import json
import re

import pytest
import yaml
from localcluster import MUSTER, ROOT
from test_training import gpt, text  # noqa: F401

SHOW = ["/bin/sh", "-c", f"exec {MUSTER} env -o json 2>/dev/null"]  # what a worker's libworker has read
ROW = re.compile(r"^\| `(?P<name>[^`]+)` \| `(?P<variable>\w+)` \| `?(?P<place>\w*)`? \| (?P<values>[^|]+) \| `?(?P<default>[^|`]*)`? \|", re.M)


def submit(cluster, folder, text, *words):
    path = folder / "job.yaml"
    path.write_text(text)
    return cluster.muster("submit", *words, path)


def variables(cluster, *words):
    """What the environment of a worker of such a job has."""
    job = cluster.submit(*words, "--", "/usr/bin/env")
    cluster.wait_state(job, "succeeded")
    return dict(line.split("=", 1) for line in cluster.muster("logs", "--rank", "0", job).stdout.splitlines() if "=" in line)


def test_every_setting_reaches_the_worker_as_the_jobs_own(cluster):
    seen = variables(cluster, "--set", "ddp.hook=fp16", "--set", "seed=0", "--set", "fsdp.reshard_after_forward=false", "-e", "MUSTER_LOG_EVERY=3")
    assert seen["MUSTER_DDP_HOOK"] == "fp16" and seen["MUSTER_SEED"] == "0" and seen["MUSTER_FSDP_RESHARD_AFTER_FORWARD"] == "false"
    assert set(seen["MUSTER_JOB_SETTINGS"].split()) == {"MUSTER_DDP_HOOK", "MUSTER_SEED", "MUSTER_FSDP_RESHARD_AFTER_FORWARD", "MUSTER_LOG_EVERY"}


def another(row):
    """A value that is not the default; of a mesh one that a single worker has."""
    values, default = row["values"], row["default"]
    if row["name"].startswith("mesh."):
        return "0" if default == "1" and " from 0 " in values else "1"
    if row["name"] == "comm_ways":
        return "direct:4K sliced"
    if "`true`" in values:
        return "false" if default == "true" else "true"
    if values.startswith("`N steps`"):
        return "7 steps"
    if values.startswith("time"):
        return "7m"
    if values.startswith("`"):
        return next(word for word in re.findall(r"`(\w+)`", values) if word != default)
    if number := re.match(r"(integer|number) (?:from|above) (\d+)(?: (?:to|and below) (\d+))?", values):
        low, high = int(number[2]), float(number[3] or "inf")
        candidates = (low + 3, low + 4) if number[1] == "integer" else (low + 3, float(default) / 2)
        return f"{next(n for n in candidates if n <= high and n != float(default)):g}"
    return f"/somewhere/{row['name']}"


def table():
    """Of every setting its name, variable, place in a job and another value than its default."""
    page = (ROOT / "docs/settings.md").read_text()  # which a test holds equal to the table
    rows = {row["name"]: {**row.groupdict(), "value": another(row)} for row in ROW.finditer(page)}
    assert len(rows) == len(re.findall(r"^\| `", page, re.M)) > 40
    return rows


def seen_by_worker(cluster, job):
    cluster.wait_state(job, "succeeded")
    return json.loads(cluster.muster("logs", "--rank", "0", job, check=True).stdout)


def nested(rows):
    tree = {}
    for row in rows:
        *path, last = row["name"].split(".")
        at = tree
        for key in path:
            at = at.setdefault(key, {})
        at[last] = row["value"]
    return tree


def say(way, rows):
    """A spec, words beside it, and of which settings they are: all that can be said in this way."""
    of_job, of_checkpoint = ([row for row in rows if row["place"] == place] for place in ("training", "checkpoint"))
    if way == "file":
        said = of_job + of_checkpoint
        beside = nested(row for row in said if row["name"].startswith("checkpoint."))
        return {**beside, "training": nested(row for row in of_job if not row["name"].startswith("checkpoint."))}, [], said
    if way == "dotted":
        return {"training": {row["name"]: row["value"] for row in of_job}}, [], of_job
    if way == "env":
        said = [row for row in rows if row["name"] not in ("checkpoint.dir", "resume_from")]
        return {"env": {row["variable"]: row["value"] for row in said}}, [], said
    return {}, [word for row in of_job for word in ("--set", f"{row['name']}={row['value']}")], of_job


@pytest.mark.parametrize("way", ["file", "dotted", "env", "set"])
def test_each_setting_of_the_table_reaches_the_worker(cluster, tmp_path, way):
    rows = table()
    one_worker = [row for row in rows.values() if row["value"] != row["default"]]
    assert {row["name"] for row in rows.values()} - {row["name"] for row in one_worker} == {"mesh.cp", "mesh.tp", "mesh.pp"}
    assert {row["place"] for row in one_worker} == {"training", "checkpoint", ""}
    chosen = {"strategy", "mixed_precision"}  # whichever they are, some of the others contradict them: another job says them
    for part in ([row for row in one_worker if (row["name"] in chosen) == alone] for alone in (False, True)):
        spec, words, said = say(way, part)
        done = submit(cluster, tmp_path, yaml.safe_dump({"command": SHOW, **spec}), *words)
        assert said and done.returncode == 0, done.stderr
        seen = seen_by_worker(cluster, done.stdout.strip())
        for row in said:
            got = seen[row["name"]]
            same = got["value"] == row["value"] or (row["values"].startswith("number") and float(got["value"]) == float(row["value"]))
            assert same and (got["from"], got["where"]) == ("job", row["variable"]), (row, got)
        assert {name for name, value in seen.items() if value["from"] == "job"} == {row["name"] for row in said}


def test_a_mesh_of_several_reaches_the_workers(make_cluster):
    cluster = make_cluster(nodes=1, slots=2)
    job = cluster.submit("--workers-per-node", "2", "--set", "mesh.dp=2", "--", *SHOW)
    assert seen_by_worker(cluster, job)["mesh.dp"] == {"value": "2", "from": "job", "where": "MUSTER_MESH_DP"}


def test_what_libworker_does_not_have_is_refused(cluster):
    for name, value in (("mesh.cp", 2), ("mesh.tp", 2), ("mesh.pp", 2), ("mixed_precision", "fp8")):
        done = cluster.muster("submit", "--workers-per-node", "2", "--set", f"{name}={value}", "--", "/bin/true")
        assert done.returncode == 2 and f"{name} {value} is not in this build of libworker" in done.stderr, done.stderr
    done = cluster.muster("submit", "-N", "33", "-w", "8", "--checkpoint", "/k", "--", "/bin/true")
    assert done.returncode == 2 and "264 workers: libworker connects 256 at most" in done.stderr, done.stderr


def test_what_stands_elsewhere_is_refused_with_its_place(cluster, tmp_path):
    for row in table().values():
        if row["place"] == "training":
            continue
        said = "`checkpoint`" if row["place"] == "checkpoint" else "each machine's own"
        for done in (submit(cluster, tmp_path, yaml.safe_dump({"command": ["/bin/true"], "training": {row["name"]: row["value"]}})),
                     cluster.muster("submit", "--set", f"{row['name']}={row['value']}", "--", "/bin/true")):
            assert done.returncode == 2 and said in done.stderr, (row, done.stderr)
    for name in ("MUSTER_CHECKPOINT_DIR", "MUSTER_RESUME_FROM"):
        done = cluster.muster("submit", "-e", f"{name}=/x", "--", "/bin/true")
        assert done.returncode == 2 and "is set by Muster" in done.stderr, done.stderr


def test_a_file_says_settings_as_a_config_file_does(cluster, tmp_path):
    text = "command: [/usr/bin/env]\ntraining:\n  strategy: ddp\n  ddp:\n    hook: powersgd\n    powersgd_rank: 2\n"
    done = submit(cluster, tmp_path, text, "--set", "ddp.powersgd_rank=4")
    assert done.returncode == 0 and not done.stderr, done.stderr
    job = done.stdout.strip()
    spec = json.loads(cluster.muster("show", "-o", "json", job).stdout)["spec"]
    assert spec["training"]["strategy"] == "ddp" and spec["training"]["settings"] == {"ddp.hook": "powersgd", "ddp.powersgd_rank": "4"}
    assert "seed" not in spec["training"], "what was not said is not shown"
    again = tmp_path / "again.yaml"
    again.write_text(json.dumps(spec))
    done = cluster.muster("submit", again)
    assert done.returncode == 0, done.stderr
    assert json.loads(cluster.muster("show", "-o", "json", done.stdout.strip()).stdout)["spec"] == spec


def test_a_folder_in_the_file_and_a_flag_beside_it_are_one_checkpoint(cluster, tmp_path):
    (tmp_path / "job.yaml").write_text(f"command: [/bin/true]\ncheckpoint: {tmp_path}/k\n")
    job = cluster.muster("submit", tmp_path / "job.yaml", "--checkpoint-every", "100 steps", check=True).stdout.strip()
    assert {key: cluster.job(job)["spec"]["checkpoint"][key] for key in ("dir", "every")} == {"dir": f"{tmp_path}/k", "every": "100 steps"}


def test_rest_takes_and_checks_the_same(cluster):
    status, job = cluster.rest("POST", "/v1/jobs", {"command": ["/bin/true"], "training": {"ddp": {"hook": "bf16"}, "fsdp": {"prefetch": 2}}})
    assert status == 201 and job["spec"]["training"]["settings"] == {"ddp.hook": "bf16", "fsdp.prefetch": "2"}, job
    assert len(job["warnings"]) == 1 and "fsdp.prefetch counts only with strategy=fsdp" in job["warnings"][0], job
    for training, field, hint in [({"ddp": {"hok": "fp16"}}, "training.ddp.hok", "ddp.hook"), ({"ddp": {"hook": "fp32"}}, "training.ddp.hook", ""),
                                  ({"settings": {"ddp.hok": "x"}}, "training.settings.ddp.hok", "ddp.hook")]:
        status, answer = cluster.rest("POST", "/v1/jobs", {"command": ["/bin/true"], "training": training})
        assert status == 400 and answer["error"]["field"] == field and hint in answer["error"].get("hint", ""), answer


def test_what_nothing_reads_is_refused_or_warned_of_at_submit(cluster, tmp_path):
    done = submit(cluster, tmp_path, "command: [/bin/true]\nenv:\n  MUSTER_STRATGY: fsdp\n")
    assert done.returncode == 2 and "did you mean MUSTER_STRATEGY?" in done.stderr, done.stderr
    done = cluster.muster("submit", "-e", "MUSTER_SEED=x", "--", "/bin/true")
    assert done.returncode == 2 and "env.MUSTER_SEED" in done.stderr, done.stderr
    for said, words in (("seed=x", ("--set seed",)), ("ddp.hook=fp3", ("--set ddp.hook", "none|fp16|bf16|powersgd")),
                        ("log_evry=3", ("--set log_evry: no such setting", "did you mean log_every?")), ("seed", ("expected SETTING=VALUE",))):
        done = cluster.muster("submit", "--set", said, "--", "/bin/true")
        assert done.returncode == 2 and all(word in done.stderr for word in words), done.stderr
    done = cluster.muster("submit", "--set", "ddp.powersgd_rank=4", "--", "/bin/true")
    assert done.returncode == 0 and "warning: ddp.powersgd_rank counts only with ddp.hook=powersgd" in done.stderr, done.stderr
    assert "warning     ddp.powersgd_rank" in cluster.muster("show", done.stdout.strip()).stdout


def test_a_job_goes_on_from_anothers_checkpoint_only_when_it_says_so(cluster, text, tmp_path):
    folder = tmp_path / "not there yet"
    words = ["--checkpoint", folder, "--", *gpt(text, 30)]
    first = cluster.submit("--resume-from", "latest", *words)
    cluster.wait_state(first, "succeeded", seconds=60)
    done = cluster.muster("submit", *words)
    assert done.returncode == 2 and f"job {first} (succeeded) left checkpoints in {folder}, the last of step 30" in done.stderr, done.stderr
    assert "--resume-from latest" in done.stderr, done.stderr
    again = cluster.submit("--resume-from", "latest", "--checkpoint", folder, "--", *gpt(text, 40))
    cluster.wait_state(again, "succeeded", seconds=60)
    assert "resumed from step 30" in cluster.muster("logs", again).stdout + cluster.muster("logs", again).stderr
    elsewhere = cluster.submit("--resume-from", folder / "step-00000030", "--checkpoint", tmp_path / "other", "--", *gpt(text, 35))
    cluster.wait_state(elsewhere, "succeeded", seconds=60)
    assert (tmp_path / "other" / "step-00000035").is_dir()


def test_a_program_is_signalled_once_before_its_time_is_over(cluster):
    """As Slurm's --signal: a shell traps it, goes on, and is asked to end at the end."""
    job = cluster.submit("--signal", "USR1@6s", "--max-runtime", "10s", "--", "/bin/sh", "-c", """
        trap 'echo USR1 $(date +%s)' USR1
        trap 'echo TERM $(date +%s); exit 0' TERM
        echo begun $(date +%s)
        while :; do sleep 0.2; done""")
    cluster.wait_state(job, "running")
    assert "USR1@6s before max_runtime (10s) is over" in cluster.muster("show", job, check=True).stdout
    ended = cluster.wait_state(job, "failed", seconds=40)
    assert ended["reason"]["kind"] == "max_runtime" and ended["spec"]["signal"] == "USR1@6s"
    said = [line.split() for line in cluster.muster("logs", job).stdout.splitlines()]
    assert [word for word, _ in said] == ["begun", "USR1", "TERM"], said
    begun, early, end = (int(second) for _, second in said)
    assert begun <= early <= end, said
    _, answer = cluster.rest("GET", "/v1/events?limit=1000")
    sent, = [event for event in answer["events"] if event["kind"] == "early_signal" and event["job"] == job]
    assert re.fullmatch(r"USR1 sent [1-6]s before the time limit \(max_runtime\)", sent["reason"]["text"]), sent
    assert int(ended["signal_wall_ms"]) == int(sent["wall_ms"])
    assert "USR1@6s, sent 20" in cluster.muster("show", job, check=True).stdout


@pytest.mark.parametrize("words, said", [
    (("--signal", "USR1"), "not a signal and a time"),
    (("--signal", "KILL@2m"), "'KILL' is none of TERM, INT, HUP, QUIT, USR1, USR2"),
    (("--signal", "USR1@soon"), "USR1@2m"),
    (("--signal", "USR1@0"), "not a signal and a time of at least 1s"),
    (("--signal", "USR1@2h"), "sent 2h before the end, but max_runtime is 1h"),
    (("--signal", "USR1@1h"), "sent 1h before the end, but max_runtime is 1h"),
])
def test_a_signal_that_cannot_be_sent_is_refused(cluster, words, said):
    refused = cluster.muster("submit", *words, "--max-runtime", "1h", "--", "true")
    assert refused.returncode == 2 and said in refused.stderr and "signal" in refused.stderr, refused.stderr


def test_a_signal_needs_a_time_limit(cluster):
    refused = cluster.muster("submit", "--signal", "USR1@1m", "--", "true")
    assert refused.returncode == 2 and "the job has none" in refused.stderr and "max_runtime" in refused.stderr
