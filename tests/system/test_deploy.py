"""What deploy/ ships does what it says: units that systemd takes, and that know our exit codes."""
import configparser
import json
import re
import shutil
import subprocess

import pytest
import yaml
from localcluster import HANG_SECONDS, MUSTER, ROOT, ROOT_WORKERS, wait_for

UNITS = ROOT / "deploy" / "systemd"


def unit(name):
    parser = configparser.ConfigParser(interpolation=None, strict=False, delimiters="=")
    parser.optionxform = str
    parser.read(UNITS / name)
    return parser["Service"]


@pytest.mark.parametrize("name", sorted(path.name for path in UNITS.glob("*.service")))
def test_systemd_takes_the_units(name, tmp_path):
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not installed")
    for path in UNITS.glob("*.service"):
        (tmp_path / path.name).write_text(path.read_text().replace("ExecStart=muster ", f"ExecStart={MUSTER} "))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(tmp_path / name)], capture_output=True, text=True, timeout=HANG_SECONDS)
    said = [line for line in done.stderr.splitlines() if name in line]
    assert not said, done.stderr


@pytest.mark.parametrize("name", ["muster-coordinator.service", "muster-agent.service"])
def test_the_options_of_the_units_are_ours(name):
    service = unit(name)
    verb, rest = re.match(r"muster (\S+) (.*)", service["ExecStart"]).groups()
    example = " ".join(re.findall(r"(?:OPTIONS|WORKERS)=([^\n\"]+)", (UNITS / name).read_text()))
    known = subprocess.run([MUSTER, verb, "--help"], capture_output=True, text=True, check=True).stdout
    for option in re.findall(r"--[a-z-]+", f"{rest} {example}"):
        assert re.search(rf"{option}\b", known), option


def test_what_is_installed_works_where_it_was_put(tmp_path):
    prefix = tmp_path / "there"
    subprocess.run(["cmake", "--install", MUSTER.parent, "--prefix", prefix], check=True, capture_output=True, text=True, timeout=HANG_SECONDS)
    installed = {str(path.relative_to(prefix)) for path in prefix.rglob("*") if path.is_file()}
    headers = {f"include/worker/{path.name}" for path in (ROOT / "libworker/include/worker").glob("*.h")}
    assert installed >= headers | {"bin/muster", "lib/sysusers.d/muster.conf", "share/bash-completion/completions/muster",
                                   *(f"lib/systemd/system/{path.name}" for path in UNITS.glob("*.service"))}, installed
    assert subprocess.run([prefix / "bin/muster", "version", "--client"], capture_output=True, text=True, check=True).stdout.startswith("muster ")
    assert "complete -F" in (prefix / "share/bash-completion/completions/muster").read_text()
    library = next(prefix.glob("lib/**/libworker.so")).parent
    program = tmp_path / "program.c"
    program.write_text('#include <worker/worker.h>\n#include <stdio.h>\nint main(void)\n{\n    struct wk_context *wk = NULL;\n    if (wk_open(NULL, &wk) != 0)\n        return 1;\n'
                       '    printf("rank %d of %d\\n", wk_rank(wk), wk_world(wk));\n    wk_close(wk);\n    return 0;\n}\n')
    subprocess.run(["gcc", program, "-I", prefix / "include", "-L", library, f"-Wl,-rpath,{library}", "-lworker", "-o", tmp_path / "program"], check=True)
    assert subprocess.run([tmp_path / "program"], capture_output=True, text=True, check=True).stdout == "rank 0 of 1\n"


def samples_of(text):
    """A scrape: {(name, state or ""): value}."""
    return {(name, state): float(value) for name, state, value in re.findall(r'^(muster_\w+)(?:\{state="(\w+)"\})? (\S+)$', text, re.M)}


def value_of(text, now, before):
    """What an expression, of the few words that our rules are made of, is between two scrapes as far apart as it asks for."""
    text = text.strip()
    if re.fullmatch(r"[\d.]+", text):
        return float(text)
    if product := re.fullmatch(r"([\d.]+) \* (.+)", text):
        return float(product[1]) * value_of(product[2], now, before)
    if inner := re.fullmatch(r"sum\((.+)\)", text):
        return value_of(inner[1], now, before)
    if inner := re.fullmatch(r"(?:rate|delta)\((.+)\[\d+m\]\)", text):
        return value_of(inner[1], now, before) - value_of(inner[1], before, before)
    selector = re.fullmatch(r'(\w+)(?:\{(?:job|state)(=~?)"([\w|]+)"\})?', text)
    assert selector, f"not understood: {text}"
    name, equal, wanted = selector.groups()
    labels = wanted.split("|") if equal == "=~" else [wanted or ""]
    return sum(now[name, label] for label in labels)


def fires(rule, now, before):
    comparisons = [re.fullmatch(r"(.+?) (==|>) (.+)", part) for part in rule["expr"].split(" and on() ")]
    sides = [(c[2], value_of(c[1], now, before), value_of(c[3], now, before)) for c in comparisons]
    return all(left == right if sign == "==" else left > right for sign, left, right in sides)


def test_alerts_are_about_metrics_that_there_are(cluster):
    rules = yaml.safe_load((ROOT / "deploy/prometheus/muster.rules.yml").read_text())["groups"][0]["rules"]
    scrape = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text())
    assert scrape["rule_files"] == ["muster.rules.yml"]
    job = scrape["scrape_configs"][0]["job_name"]
    quiet = samples_of(cluster.rest("GET", "/metrics", raw=True, token=cluster.token)[1]) | {("up", job): 1.0}
    assert quiet["muster_ready", ""] == 1 and quiet["muster_jobs_stalled", ""] == 0 and quiet["muster_nodes", "ready"] == 1
    assert {rule["labels"]["severity"] for rule in rules} == {"page", "ticket"}
    # What happens, and who is to hear of it, beside nobody else.
    happenings = [("MusterDown", {("up", job): 0}), ("MusterNotReady", {("muster_ready", ""): 0}), ("MusterJobStalled", {("muster_jobs_stalled", ""): 1}),
                  ("MusterNodesGone", {("muster_nodes", "lost"): 1}), ("MusterNodesGone", {("muster_nodes", "unreachable"): 1}),
                  ("MusterNoSlots", {("muster_slots", ""): 0, ("muster_jobs", "queued"): 1}), ("MusterJobsFail", {("muster_jobs", "failed"): 1}),
                  ("MusterGpusLost", {("muster_gpus_lost", ""): 1}), ("MusterGpusFaulty", {("muster_gpus_faulty", ""): 1}),
                  ("MusterGpusHeld", {("muster_gpus_held", ""): 1}),
                  ("MusterCallsFail", {("muster_calls_failed_total", ""): 21, ("muster_calls_total", ""): 100}),
                  (None, {}), (None, {("muster_slots", ""): 0}), (None, {("muster_jobs", "queued"): 1}), (None, {("muster_nodes", "cordoned"): 1}),
                  (None, {("muster_calls_failed_total", ""): 19, ("muster_calls_total", ""): 100}), (None, {("muster_jobs", "succeeded"): 1})]
    for who, changes in happenings:
        now = {key: changes[key] + (value if key[0].endswith("_total") else 0) if key in changes else value for key, value in quiet.items()}
        assert set(changes) <= set(quiet), f"there is nothing called {changes}"
        assert [rule["alert"] for rule in rules if fires(rule, now, quiet)] == ([who] if who else []), changes
    assert {rule["alert"] for rule in rules} == {who for who, _ in happenings if who}
    for rule in rules:
        assert rule["annotations"]["summary"] and rule["annotations"]["action"]
        assert re.fullmatch(r"\d+m", rule.get("for", "0m"))


def test_an_agent_with_a_token_of_another_role_ends_and_is_not_started_again(cluster):
    viewer = cluster.muster("token", "create", "watcher", "--role", "viewer", "--tenant", "default", check=True).stdout.strip()
    revoked = cluster.muster("token", "create", "gone", "--role", "agent", check=True).stdout.strip()
    cluster.muster("token", "revoke", "gone", check=True)
    for token, why in ((viewer, "needs a token of role agent"), (revoked, "this token")):
        done = subprocess.run([MUSTER, "agent", "--coordinator", cluster.rpc, "--token", token, "--name", "stray", "--data", str(cluster.folder / "stray"), *ROOT_WORKERS],
                              capture_output=True, text=True, timeout=HANG_SECONDS)
        assert done.returncode == 77, (done.returncode, done.stderr)
        assert why in done.stderr and "--role agent" in done.stderr, done.stderr
        assert str(done.returncode) in unit("muster-agent.service")["RestartPreventExitStatus"].split()
    nodes = json.loads(cluster.muster("nodes", "-o", "json", check=True).stdout)["nodes"]
    assert [node["name"] for node in nodes] == ["node1"]


def test_an_agent_whose_token_is_taken_back_keeps_its_workers_and_tries_again(cluster):
    job = cluster.submit("--", "sleep", "3600")
    cluster.wait_state(job, "running")
    agent_token = next(t for t in json.loads(cluster.muster("token", "list", "-o", "json", check=True).stdout)["tokens"] if t["role"] == "agent")
    cluster.muster("token", "revoke", agent_token["id"], check=True)
    cluster.muster("rekey", "node1", check=True)  # while its key is known it needs no token
    wait_for("the agent hears of it", 20, lambda: "this token" in cluster.log("node1.log"))
    assert cluster.agents["node1"].poll() is None and cluster.worker_processes("node1")
