"""A job's training settings: every one of the table, checked at submit, told to the workers as the job's own."""
import json

from test_training import gpt, text  # noqa: F401


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
