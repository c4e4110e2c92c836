"""What deploy/ ships does what it says: units that systemd takes, and that know our exit codes."""
import configparser
import json
import re
import shutil
import subprocess

import pytest
import yaml
from localcluster import MUSTER, ROOT, wait_for

UNITS = ROOT / "deploy" / "systemd"


def unit(name):
    parser = configparser.ConfigParser(interpolation=None, strict=False, delimiters="=")
    parser.optionxform = str
    parser.read(UNITS / name)
    return parser["Service"]


@pytest.mark.parametrize("name", ["muster-coordinator.service", "muster-agent.service"])
def test_systemd_takes_the_units(name, tmp_path):
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not installed")
    text = (UNITS / name).read_text().replace("/usr/bin/muster", str(MUSTER))
    (tmp_path / name).write_text(text)
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(tmp_path / name)], capture_output=True, text=True, timeout=60)
    said = [line for line in done.stderr.splitlines() if name in line and "DelegateSubgroup" not in line]
    assert not said, done.stderr


@pytest.mark.parametrize("name", ["muster-coordinator.service", "muster-agent.service"])
def test_the_options_of_the_units_are_ours(name):
    service = unit(name)
    verb, rest = re.match(r"/usr/bin/muster (\S+) (.*)", service["ExecStart"]).groups()
    example = re.search(r"# OPTIONS=(.*)", (UNITS / name).read_text()).group(1)
    known = subprocess.run([MUSTER, verb, "--help"], capture_output=True, text=True, check=True).stdout
    for option in re.findall(r"--[a-z-]+", f"{rest} {example}"):
        assert re.search(rf"{option}\b", known), option


def test_alerts_are_about_metrics_that_there_are(cluster):
    rules = yaml.safe_load((ROOT / "deploy/prometheus/muster.rules.yml").read_text())["groups"][0]["rules"]
    text = cluster.rest("GET", "/metrics", raw=True, token=cluster.token)[1]
    told = dict(re.findall(r"^(muster_\w+)(?:\{[^}]*\})? (\d+)$", text, re.M))
    states = set(re.findall(r'muster_(?:jobs|nodes)\{state="(\w+)"\}', text))
    assert {rule["labels"]["severity"] for rule in rules} == {"page", "ticket"}
    for rule in rules:
        for name in re.findall(r"\bmuster_\w+", rule["expr"]):
            assert name in told, (rule["alert"], name)
        for state in re.findall(r'state=~?"([\w|]+)"', rule["expr"]):
            assert set(state.split("|")) <= states, (rule["alert"], state)
        assert rule["annotations"]["summary"] and rule["annotations"]["action"]
    assert told["muster_ready"] == "1" and told["muster_jobs_stalled"] == "0"
    scrape = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text())
    assert scrape["rule_files"] == ["muster.rules.yml"] and scrape["scrape_configs"][0]["job_name"] == "muster"


def test_an_agent_with_a_token_of_another_role_ends_and_is_not_started_again(cluster):
    viewer = cluster.muster("token", "create", "watcher", "--role", "viewer", "--tenant", "default", check=True).stdout.strip()
    revoked = cluster.muster("token", "create", "gone", "--role", "agent", check=True).stdout.strip()
    cluster.muster("token", "revoke", "gone", check=True)
    for token, why in ((viewer, "needs a token of role agent"), (revoked, "this token")):
        done = subprocess.run([MUSTER, "agent", "--coordinator", cluster.rpc, "--token", token, "--name", "stray", "--data", str(cluster.folder / "stray")],
                              capture_output=True, text=True, timeout=20)
        assert done.returncode == 77, (done.returncode, done.stderr)
        assert why in done.stderr and "--role agent" in done.stderr, done.stderr
        assert str(done.returncode) in unit("muster-agent.service")["RestartPreventExitStatus"].split()
    nodes = json.loads(cluster.muster("nodes", "-o", "json", check=True).stdout)["nodes"]
    assert [node["name"] for node in nodes] == ["node1"]


def test_an_agent_whose_token_is_taken_back_keeps_its_workers_and_tries_again(cluster):
    job = cluster.submit("--", "sleep", "60")
    cluster.wait_state(job, "running")
    agent_token = next(t for t in json.loads(cluster.muster("token", "list", "-o", "json", check=True).stdout)["tokens"] if t["role"] == "agent")
    cluster.muster("token", "revoke", agent_token["id"], check=True)
    wait_for("the agent hears of it", 20, lambda: "this token" in cluster.log("node1.log"))
    assert cluster.agents["node1"].poll() is None and cluster.worker_processes("node1")
