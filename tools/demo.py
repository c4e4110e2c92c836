#!/usr/bin/python3
"""The demonstration: a GPT trained on two nodes, one of them lost and brought back, on this machine.

    ./dev demo [--steps N] [--keep]

Real processes all through: a coordinator, two agents (each a node of its own; their workers speak
TCP to each other), examples/gpt as a job of one to two nodes. Ctrl-C ends everything it started.
"""
import argparse
import math
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from localcluster import ROOT, Cluster  # noqa: E402

MODEL = ["--layers", "4", "--heads", "4", "--width", "128", "--context", "128", "--batch", "16"]
CHECKPOINT_EVERY = 75
ENDED = ("succeeded", "failed", "cancelled")


def say(text):
    progress_done()
    print(text, flush=True)


def progress_done():
    if sys.stdout.isatty():
        print("\r\033[K", end="")


def progress(job, last=[0.0]):
    """One line, redrawn on a terminal; every five seconds where there is none."""
    step, total = int(job.get("step") or 0), int(job.get("total_steps") or 0)
    cells = 28
    full = int(cells * step / total) if total else 0
    line = f"{'█' * full}{'░' * (cells - full)} {job['state']:<10}"
    if step:
        line += (f" step {step}/{total}  loss {float(job.get('loss') or 0):.3f}  "
                 f"{float(job.get('tokens_per_second') or 0):,.0f} tokens/s  world {job.get('world') or 0}")
    if sys.stdout.isatty():
        print("\r\033[K" + line, end="", flush=True)
    elif time.monotonic() - last[0] > 5:
        last[0] = time.monotonic()
        print(line, flush=True)


def text_to_train_on(folder):
    """The King James Bible of Debian's bible-kjv-text, one verse a line without its number."""
    path = folder / "kjv.txt"
    verses = subprocess.run(["bible", "-f", "-l", "20000", "Gen1:1-Rev22:21"], check=True, capture_output=True, text=True).stdout
    path.write_text("\n".join(line.split(" ", 1)[1] for line in verses.splitlines() if " " in line) + "\n")
    return path


def unigram_entropy(path):
    """Nats a byte: the loss of guessing by frequency alone."""
    counts = Counter(path.read_bytes())
    total = sum(counts.values())
    return -sum(n / total * math.log(n / total) for n in counts.values())


class Demo:
    def __init__(self, cluster, options):
        self.cluster = cluster
        self.options = options
        self.job_id = None

    def job(self):
        return self.cluster.rest("GET", f"/v1/jobs/{self.job_id}")[1]

    def watch_until(self, what, seconds, reached):
        """The job when it is so. A busy machine may take its time: only so many seconds without a step are too long."""
        step, since = -1, time.monotonic()
        while time.monotonic() - since < seconds:
            job = self.job()
            progress(job)
            if reached(job):
                return job
            if job["state"] in ENDED:
                raise RuntimeError(f"the job is {job['state']} before '{what}': {(job.get('reason') or {}).get('text')}\n"
                                   + self.cluster.output(self.job_id)[-3000:])
            if int(job.get("step") or 0) != step:
                step, since = int(job.get("step") or 0), time.monotonic()
            time.sleep(0.1)
        raise TimeoutError(f"waiting for {what}: no step for {seconds} s")

    def checkpoints(self):
        return self.cluster.rest("GET", f"/v1/jobs/{self.job_id}/checkpoints")[1].get("checkpoints", [])

    def submit(self, text):
        folder = self.cluster.folder
        spec = folder / "job.yaml"
        command = [str(ROOT / "build/examples/gpt"), "--data", str(text), *MODEL, "--steps", str(self.options.steps), "--sample", "240"]
        spec.write_text(f"name: gpt-kjv\ncommand: {command!r}\nnodes: {{min: 1, max: 2}}\nelastic: in_place\n"
                        f"checkpoint: {{dir: {folder}/checkpoints, every: {CHECKPOINT_EVERY} steps, keep: 3}}\n".replace("'", '"'))
        self.job_id = self.cluster.submit(str(spec))
        say(f"submitted {self.job_id}: examples/gpt on 1..2 nodes, a checkpoint every {CHECKPOINT_EVERY} steps")

    def lose_and_regain(self):
        job = self.watch_until("two checkpoints with both nodes", 60, lambda j: j.get("world") == 2 and j["state"] == "running" and len(self.checkpoints()) >= 2)
        last = self.checkpoints()[-1]
        lost_node = next(w["node"] for w in job["workers"] if int(w.get("rank") or 0) == 1)
        before = max(int(self.job().get("step") or 0), int(last["step"]))  # a step is reported once a second
        killed = time.monotonic()
        self.cluster.kill_node(lost_node)
        say(f"SIGKILL to {lost_node}: its agent and its worker, at about step {before} (last checkpoint: step {last['step']})")
        job = self.watch_until("the survivor's next step", 30, lambda j: j.get("world") == 1 and j["state"] == "running" and int(j.get("last_recovery_ms") or 0) > 0)
        seen = time.monotonic() - killed
        recovery = int(job.get("last_recovery_ms") or 0)
        say(f"goes on with one node at step {int(job['step'])}: the survivor kept its state, so no completed step is lost and "
            f"the checkpoint was not needed")
        say(f"the new world of one stood {self.reformed_ms()} ms after the loss was seen; its next step was complete after "
            f"{recovery / 1000:.2f} s ({seen:.2f} s seen from here, polling)")
        goal = int(job["step"]) + 60
        self.watch_until("60 steps alone", 60, lambda j: int(j.get("step") or 0) >= goal)
        self.cluster.start_agent(lost_node)
        say(f"{lost_node} is back: its agent was started again")
        job = self.watch_until("two nodes again", 60, lambda j: j.get("world") == 2 and j["state"] == "running")
        say(f"grown to two nodes at step {int(job['step'])} (generation {job['generation']})")
        return recovery

    def reformed_ms(self):
        """From the coordinator's verdict to the published membership, by its own event log."""
        events = self.cluster.rest("GET", f"/v1/jobs/{self.job_id}/events?limit=1000")[1]["events"]
        moves = [(e["to"], int(e["wall_ms"])) for e in events if e["kind"] == "job_state"]
        lost = next(at for to, at in moves if to == "reforming")
        return next(at for to, at in moves if to == "running" and at >= lost) - lost

    def finish(self, entropy, recovery):
        job = self.watch_until("the end", 60, lambda j: j["state"] in ENDED)
        progress_done()
        if job["state"] != "succeeded":
            raise RuntimeError(f"the job {job['state']}: {(job.get('reason') or {}).get('text')}")
        metrics = self.cluster.rest("GET", f"/v1/jobs/{self.job_id}/metrics?name=loss&max_points=5000")[1]
        points = metrics["series"][0]["points"]
        first, final = points[0], points[-min(10, len(points)):]
        mean = sum(float(p["value"]) for p in final) / len(final)
        say(f"succeeded after {job['step']} steps in {job['generation']} generations")
        say(f"loss: {float(first['value']):.3f} at step {first['step']} → {mean:.3f} at the end (guessing by letter frequency: {entropy:.3f})")
        say(f"recovery: {recovery / 1000:.2f} s from SIGKILL to the next completed step")
        output = self.cluster.muster("logs", "--rank", "0", self.job_id).stdout
        if "--- sample" in output:
            sample = output.split("--- sample", 1)[1].split("\n", 1)[1].rsplit("---", 1)[0].strip()
            say("a sample of what it writes now:\n  " + sample.replace("\n", "\n  "))
        if mean > 0.9 * entropy:
            raise RuntimeError("the loss did not fall well below the unigram entropy")


def run(options, folder):
    text = text_to_train_on(folder)
    entropy = unigram_entropy(text)
    began = time.monotonic()
    with Cluster(folder) as cluster:
        cluster.start_coordinator()
        for name in ("node1", "node2"):
            cluster.start_agent(name, "--slots", "1")
        cluster.wait_nodes(2)
        say(f"up: a coordinator and two nodes; the page is http://{cluster.http}/ (token: {cluster.data}/admin.token)")
        demo = Demo(cluster, options)
        demo.submit(text)
        recovery = demo.lose_and_regain()
        demo.finish(entropy, recovery)
        say(f"took {time.monotonic() - began:.0f} s")
        if options.keep:
            say(f"kept up: the page is http://{cluster.http}/#token={cluster.token}\nCtrl-C ends it")
            signal.pause()
        else:
            say(f"the page was http://{cluster.http}/ ; `./dev demo --keep` leaves it up to look at")


def main():
    parser = argparse.ArgumentParser(prog="./dev demo", description=__doc__.split("\n\n")[0])
    parser.add_argument("--steps", type=int, default=600, help="optimizer steps (600)")
    parser.add_argument("--keep", action="store_true", help="leave the cluster up at the end, until Ctrl-C")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
    folder = Path(tempfile.mkdtemp(prefix="muster-demo-"))
    try:
        run(options, folder)
    except KeyboardInterrupt:
        say("interrupted; everything it started has ended")
        return 130
    except (RuntimeError, TimeoutError) as error:
        say(f"the demonstration failed: {error}")
        for name in ("coordinator.log", "node1.log", "node2.log"):
            path = folder / name
            if path.exists():
                say(f"--- end of {name}\n" + path.read_text(errors="replace")[-1500:])
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
