"""What each rank says of itself, and which is slow: `muster show JOB --ranks`, REST, `why`."""
import json
import subprocess

from localcluster import HANG_SECONDS, ROOT, wait_for
from reporting import program  # noqa: F401: a fixture


def ranks_of(cluster, job, token=None):
    status, answer = cluster.rest("GET", f"/v1/jobs/{job}/ranks", token=token)
    assert status == 200, answer
    return answer


def as_user(cluster, token, *words):
    return subprocess.run([cluster.muster_path, *map(str, words)], capture_output=True, text=True, timeout=HANG_SECONDS,
                          env={**cluster.environment(), "MUSTER_TOKEN": token})


def new_token(cluster, name, *options):
    return cluster.muster("token", "create", name, *options, check=True).stdout.strip()


# Ranks that meet in each step by files; rank 2 works for longer, so that the others wait for it.
MEETING = '''
    place = report.ask("hello", protocol=1)
    rank, step = place["rank"], 0
    while not os.path.exists("FOLDER/enough"):
        step += 1
        time.sleep(0.2 if rank == 2 else 0.01)
        begun = time.monotonic()
        open(f"FOLDER/{step}-{rank}", "w").close()
        while not all(os.path.exists(f"FOLDER/{step}-{other}") for other in range(place["world"])):
            if os.path.exists("FOLDER/enough"):
                sys.exit()
            time.sleep(0.001)
        own = {f"own/of{rank}": rank + 0.5}
        report.note("step", step=step, loss=10.0 + rank, waited_s=time.monotonic() - begun, metrics=own)
'''


def test_the_rank_that_the_others_wait_for_is_named_and_each_says_its_own(make_cluster, program, tmp_path):
    cluster = make_cluster(nodes=3, slots=1)
    for tenant in ("red", "blue"):
        cluster.muster("tenant", "create", tenant, check=True)
    watcher = new_token(cluster, "watcher", "--role", "viewer", "--tenant", "red")
    stranger = new_token(cluster, "stranger", "--role", "viewer", "--tenant", "blue")
    enough = tmp_path / "enough"
    job = cluster.submit("--tenant", "red", "-N", "3", "--", *program(MEETING.replace("FOLDER", str(tmp_path))))

    def all_compared():
        now = ranks_of(cluster, job, token=watcher)
        return now if now.get("slowest") and all(rank["timed"] >= 8 for rank in now["ranks"]) else None
    told = wait_for("the slow rank", 60, all_compared)
    assert told["count"] == 3 and told["by_work"] is True and told["next"] == 0
    assert [rank["rank"] for rank in told["ranks"]] == [0, 1, 2]
    for rank in told["ranks"]:
        own = rank["rank"]
        assert rank["numbers"] == {"loss": 10.0 + own, f"own/of{own}": own + 0.5}, rank
        assert rank["state"] == "running" and int(rank["step"]) > 0
        assert rank["work_ms"] <= rank["step_ms"]
    slow = told["ranks"][2]
    assert told["slowest"]["rank"] == 2 and told["slowest"]["node"] == slow["node"]
    assert told["slowest"]["text"].startswith(f"rank 2 (node {slow['node']}) works ")
    assert slow["ratio"] >= 1.3 and slow["work_ms"] >= 200 and slow["ratio"] == max(rank["ratio"] for rank in told["ranks"])
    # Those of rank 0 alone are series of the job.
    wait_for("the series", 10, lambda: cluster.rest("GET", f"/v1/jobs/{job}/metrics?name=own/of0")[1]["series"])
    names = {series["name"] for series in cluster.rest("GET", f"/v1/jobs/{job}/metrics")[1]["series"]}
    assert names & {"own/of0", "own/of1", "own/of2", "loss"} == {"own/of0", "loss"}

    shown = as_user(cluster, watcher, "show", job, "--ranks")
    assert shown.returncode == 0, shown.stderr
    title, *rows = shown.stdout.splitlines()
    assert title.split() == ["RANK", "NODE", "SLOT", "STATE", "STEP", "STEP", "TIME", "WORK", "RATIO", "LOSS", "NUMBERS"]
    assert [row.split()[0] for row in rows[:3]] == ["0", "1", "2"]
    assert "12.0000" in rows[2] and "own/of2 2.5" in rows[2] and slow["node"] in rows[2]
    assert "slow        rank 2" in shown.stdout and f"muster stacks {job} --rank 2" in shown.stdout
    assert len(json.loads(cluster.muster("show", job, "--ranks", "-o", "json", check=True).stdout)["ranks"]) == 3
    assert "(slow_rank)" in cluster.muster("why", job, check=True).stdout
    refused = as_user(cluster, stranger, "show", job, "--ranks")
    assert refused.returncode == 2 and "no job has the id or name" in refused.stderr
    assert cluster.rest("GET", f"/v1/jobs/{job}/ranks", token=stranger)[0] == 404

    # A coordinator that starts again is told all of it again.
    cluster.kill_coordinator()
    cluster.start_coordinator()
    wait_for("the slow rank", 30, lambda: ranks_of(cluster, job).get("slowest"))
    enough.touch()
    cluster.wait_state(job, "succeeded")
    ended = ranks_of(cluster, job)
    assert [rank["numbers"]["loss"] for rank in ended["ranks"]] == [10.0, 11.0, 12.0] and not ended.get("slowest")


def test_ranks_of_libworker_say_how_long_they_work(make_cluster, tmp_path):
    cluster = make_cluster(nodes=2, slots=1)
    (tmp_path / "text.txt").write_text("In the beginning was the word. " * 500)
    job = cluster.submit("-N", "2", "--", ROOT / "build/examples/gpt", "--data", tmp_path / "text.txt", "--layers", "1", "--heads", "2",
                         "--width", "32", "--context", "32", "--batch", "8", "--steps", "100000000")

    def told():
        ranks = ranks_of(cluster, job)["ranks"]
        return ranks if len(ranks) == 2 and all(rank["timed"] >= 8 and "loss" in rank["numbers"] for rank in ranks) else None
    ranks = wait_for("both ranks' times and losses", 60, told)
    for rank in ranks:
        assert 0 <= rank["work_ms"] <= rank["step_ms"] and rank["ratio"] > 0
    assert ranks_of(cluster, job)["by_work"] is True
    cluster.muster("cancel", job, check=True)
    cluster.wait_state(job, "cancelled")
