"""muster sim on real files: what the docs print, formats that agree, mistakes that are named."""
import json
import subprocess
from pathlib import Path

from localcluster import HANG_SECONDS, Cluster

ROOT = Path(__file__).resolve().parents[2]


def sim(*args):
    muster = Cluster(ROOT).muster_path
    return subprocess.run([muster, "sim", *map(str, args)], cwd=ROOT, capture_output=True, text=True, timeout=HANG_SECONDS)


def test_the_example_of_the_docs_runs_as_printed():
    page = (ROOT / "docs/planning.md").read_text(encoding="utf-8")
    shown = [line[4:] for line in page.splitlines() if line.startswith("    ")]
    got = sim("examples/sim/cluster.yaml", "examples/sim/workload.yaml")
    assert got.returncode == 0, got.stderr
    lines = [line for line in got.stdout.splitlines() if line]
    assert [line.split()[0] for line in lines] == [line.split()[0] for line in shown]
    assert lines[:2] == shown[:2], "how long they wait is the scheduler's matter, that all end is not"


def test_a_csv_and_a_trace_of_the_same_jobs_give_the_same_figures(tmp_path):
    cluster, csv, swf = tmp_path / "c.yaml", tmp_path / "w.csv", tmp_path / "w.swf"
    cluster.write_text("nodes: [{count: 2, slots: 4}]\nstart: 0s\n")
    csv.write_text("submit,duration,nodes,workers\n0,10m,2,4\n60,300,1,2\n")
    swf.write_text("; a trace\n1 0 -1 600 8 -1 -1 8 -1 -1 1 1 1 1 1 1 -1 -1\n2 60 -1 300 2 -1 -1 2 -1 -1 1 1 1 1 1 1 -1 -1\n")
    first, second = (json.loads(sim(cluster, path, "--json").stdout) for path in (csv, swf))
    assert first == second
    assert first["makespan_s"] == 900 and first["wait_mean_s"] == 270
    assert abs(first["utilisation"] - (8 * 600 + 2 * 300) / (8 * 900)) < 1e-9


def test_mistakes_name_the_file_the_line_and_the_mend(tmp_path):
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text("nodes: [{slots: 1}]\n")
    for text, words in (("jobs:\n  - {duration: 5m, nodess: 2}\n", ("line 2", "nodess", "nodes")),
                        ("streams:\n  - {every: soon, duration: 5m}\n", ("line 2", "every", "exponential")),
                        ("jobs: []\n", ("no job",)), ("jobs: 3\n", ("a list",)), ("", ("a map",))):
        bad.write_text(text)
        got = sim(good, bad)
        assert got.returncode == 2, text
        assert "bad.yaml" in got.stderr and all(word in got.stderr for word in words), got.stderr
    bad.write_text("nodes: [{slots: 1, cpus: 3}]\n")
    assert "cpus" in sim(bad, good).stderr
    csv = tmp_path / "bad.csv"
    csv.write_text("submit,duration\n0,never\n")
    got = sim(good, csv)
    assert got.returncode == 2 and "bad.csv:2" in got.stderr and "never" in got.stderr


def test_what_is_beyond_all_bounds_is_refused_and_named(tmp_path):
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text("nodes: [{slots: 1}]\n")
    jobs = tmp_path / "jobs.yaml"
    jobs.write_text("jobs: [{duration: 1s}]\n")
    for labels in ("[a]", "5", "{a: b, c: d}"):
        bad.write_text(f"nodes: [{{slots: 1, labels: {labels}}}]\n")
        got = sim(bad, jobs)
        assert got.returncode == 2 and "labels" in got.stderr, got.stderr
    for name, text in (("w.csv", "submit,duration\n1e300,10\n"), ("w.csv", "submit,duration\n0,1e300\n"),
                       ("w.swf", "1 1e300 0 10 1 0 0 1 0 0 1 1\n"), ("w.swf", "1 0 0 10 1 0 0 1 1e300 0 1 1\n"),
                       ("w.yaml", "jobs: [{duration: lognormal 10m 1e9, count: 8}]\n"),
                       ("w.yaml", "streams: [{duration: 1s, every: 10000d, count: 100}]\n")):
        work = tmp_path / name
        work.write_text(text)
        got = sim(good, work)
        assert got.returncode == 2 and "100 years" in got.stderr, (text, got.stdout, got.stderr)
