"""muster env: values, where they come from, slips; the page of settings is the table's."""
import json
import subprocess

from localcluster import HANG_SECONDS, MUSTER, ROOT
from test_examples import quiet_environment


def env(*words, **variables):
    return subprocess.run([MUSTER, "env", *words], capture_output=True, text=True, timeout=HANG_SECONDS, env=quiet_environment(**variables))


def settings(*words, **variables):
    done = env("-o", "json", *words, **variables)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_strongest_source_counts(tmp_path):
    file = tmp_path / "job.yaml"
    file.write_text("name: mine\ntraining:\n  strategy: zero1\n  seed: 5\n  fsdp: {prefetch: 2}\ncheckpoint: {dir: /k, keep: 7}\n")
    seen = settings("--config", file, "--set", "seed=7", "--set", "log_every=1", MUSTER_SEED="6", MUSTER_STRATEGY="zero2")
    assert seen["seed"] == {"value": "7", "from": "code"}
    assert seen["log_every"] == {"value": "1", "from": "code"}
    assert seen["strategy"] == {"value": "zero2", "from": "environment", "where": "MUSTER_STRATEGY"}
    assert seen["checkpoint.keep"] == {"value": "7", "from": "config file", "where": f"{file}:6"}
    assert seen["fsdp.prefetch"] == {"value": "2", "from": "config file", "where": f"{file}:5"}
    assert seen["comm_timeout"] == {"value": "30m", "from": "default"}
    assert seen == settings("--set", "seed=7", "--set", "log_every=1", MUSTER_SEED="6", MUSTER_STRATEGY="zero2", MUSTER_CONFIG=str(file))
    assert set(settings("--changed", MUSTER_SEED="6")) == {"seed"}
    table = env("--changed", MUSTER_SEED="6").stdout.splitlines()
    assert [line.split() for line in table] == [["SETTING", "VALUE", "FROM"], ["seed", "6", "environment", "MUSTER_SEED"]]
    assert "every setting is at its default" in env("--changed").stdout


def test_a_slip_is_told_with_its_line_and_the_nearest_name(tmp_path):
    file = tmp_path / "run.yaml"
    for text, said in [("strategy: ddp\nfsdp:\n  prefech: 2\n", ["line 3", "fsdp.prefech", "fsdp.prefetch"]),
                       ("checkpoint:\n  evry: 5 steps\n", ["line 2", "checkpoint.every"]), ("strategy: zero9\n", ["run.yaml:1", "ddp|zero1|zero2|fsdp"]),
                       ("seed: [1]\n", ["line 1", "a list"])]:
        file.write_text(text)
        done = env("--config", file)
        assert done.returncode == 2 and not done.stdout and all(words in done.stderr for words in said), done.stderr
    for words, variables, said in [(["--set", "log_evry=3"], {}, "log_every"), (["--set", "seed"], {}, "NAME=VALUE"), ([], {"MUSTER_SEED": "x"}, "MUSTER_SEED"),
                                   (["--config", "absent.yaml"], {}, "absent.yaml")]:
        done = env(*words, **variables)
        assert done.returncode == 2 and said in done.stderr, done.stderr
    done = env(MUSTER_STRATGY="zero1")
    assert done.returncode == 0 and "did you mean MUSTER_STRATEGY?" in done.stderr
    assert not env(MUSTER_STRATEGY="zero1", MUSTER_ADDR="tcp://127.0.0.1:1").stderr


def test_the_page_of_settings_is_the_table():
    done = env("--markdown")
    page = (ROOT / "docs/settings.md").read_text()
    assert done.stdout == page, "run: build/muster env --markdown > docs/settings.md"
