"""Checkpoints are whole or absent, and Muster hears of those that are whole."""
import os
import threading
import unittest
from pathlib import Path
from tempfile import TemporaryDirectory

from agent_peer import wait_for
from case import Case

import muster
from muster import saving


class Folders(Case):
    def setUp(self):
        super().setUp()
        folder = TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def save(self, name="step-1", text="1", **more):
        with muster.checkpoint(self.folder / name, **more) as folder:
            (folder / "model").write_text(text)
        return self.folder / name

    def names(self):
        return sorted(entry.name for entry in self.folder.iterdir())


class Whole(Folders):
    def test_it_has_its_name_only_when_it_is_whole(self):
        with muster.checkpoint(self.folder / "step-1") as folder:
            (folder / "model").write_text("1")
            self.assertFalse((self.folder / "step-1").exists())
        self.assertEqual(self.names(), ["step-1"])
        self.assertEqual((self.folder / "step-1/model").read_text(), "1")

    def test_a_block_that_raises_leaves_nothing_and_keeps_what_was_there(self):
        path = self.save(text="old")
        with self.assertRaises(ZeroDivisionError):
            with muster.checkpoint(path) as folder:
                (folder / "model").write_text("new")
                1 / 0
        self.assertEqual(self.names(), ["step-1"])
        self.assertEqual((path / "model").read_text(), "old")

    def test_the_same_name_again_is_exchanged(self):
        for text in ("old", "new"):
            path = self.save(text=text)
        self.assertEqual(((path / "model").read_text(), self.names()), ("new", ["step-1"]))
        exchange, saving._exchange = saving._exchange, lambda *_: False
        try:
            self.save(text="newer")
        finally:
            saving._exchange = exchange
        self.assertEqual(((path / "model").read_text(), self.names()), ("newer", ["step-1"]))

    def test_the_latest_outside_of_muster_is_the_newest_that_is_whole(self):
        self.assertIsNone(muster.latest(self.folder))
        for number in (1, 2):
            path = self.save(f"step-{number}")
            os.utime(path, (number, number))
        (self.folder / ".step-3-1-ab.tmp").mkdir()
        self.assertEqual(muster.latest(self.folder), self.folder / "step-2")
        os.environ["MUSTER_RESUME_FROM"] = "/elsewhere"
        self.assertEqual(muster.latest(self.folder), Path("/elsewhere"))


class Known(Folders):
    def test_the_agent_hears_of_its_beginning_and_its_end(self):
        peer = self.peer()
        path = self.save(step=120, text="12345")
        said = [{key: line.get(key) for key in ("state", "path", "step", "bytes")} for line in peer.of("checkpoint")]
        self.assertEqual(said, [{"state": "begin", "path": str(path), "step": 120, "bytes": None},
                                {"state": "whole", "path": str(path), "step": 120, "bytes": 5}])

    def test_a_failure_is_told(self):
        peer = self.peer()
        with self.assertRaises(KeyError):
            with muster.checkpoint(self.folder / "a"):
                raise KeyError
        wait_for("failed", lambda: any(line["state"] == "failed" for line in peer.of("checkpoint")))

    def test_a_generation_that_is_over_writes_nothing(self):
        self.peer(answers={"checkpoint": {"error": {"code": "ABORTED", "message": "generation 3 is over"}}})
        with self.assertRaises(muster.Aborted):
            self.save()
        self.assertEqual(self.names(), [])

    def test_an_agent_that_says_nothing_does_not_keep_a_program_from_saving(self):
        self.peer(answers={"checkpoint": "silence"})
        from muster import agent
        before, agent.Agent.request.__defaults__ = agent.Agent.request.__defaults__, (0.2,)
        try:
            with self.assertLogs("muster", "WARNING"):
                path = self.save()
        finally:
            agent.Agent.request.__defaults__ = before
        self.assertTrue(path.is_dir())

    def test_only_what_lies_beside_it_is_pruned(self):
        for name in ("step-1", "step-2"):
            self.save(name)
        with TemporaryDirectory() as other:
            victim = Path(other) / "kept"
            victim.mkdir()
            self.peer(answers={"checkpoint": lambda m: {"prune": [str(self.folder / "step-1"), str(victim), str(self.folder / "step-3")]}
                               if m["state"] == "whole" else {}})
            self.save("step-3")
            self.assertTrue(victim.is_dir())
        self.assertEqual(self.names(), ["step-2", "step-3"])

    def test_the_latest_is_the_agents(self):
        self.peer(answers={"latest": {"path": "/ckpt/step-9", "step": 9}})
        self.assertEqual(muster.latest(), Path("/ckpt/step-9"))
        os.environ["MUSTER_RESUME_FROM"] = "/ckpt/step-3"
        self.assertEqual(muster.latest(), Path("/ckpt/step-9"), "the start is over")

    def test_the_home_of_a_loops_checkpoints_is_the_jobs_folder(self):
        os.environ["MUSTER_CHECKPOINT_DIR"] = str(self.folder)
        self.assertEqual(saving.home("ckpt"), Path("ckpt"), "outside of Muster")
        self.peer()
        self.assertEqual(saving.home("ckpt"), self.folder)
        for inside in (self.folder, self.folder / "run-1"):
            self.assertEqual(saving.home(inside), inside)
        self.assertEqual(saving.home(f"{self.folder}-old"), self.folder, "not below it")
        del os.environ["MUSTER_CHECKPOINT_DIR"]
        self.assertEqual(saving.home("ckpt"), Path("ckpt"))

    def test_a_job_without_one_begins_where_it_says(self):
        self.peer(answers={"latest": {"path": None, "step": None}})
        for number in (1, 2):
            path = self.save(f"step-{number}")
            os.utime(path, (number, number))
        self.assertIsNone(muster.latest(self.folder), "an earlier job's, and it says nothing")
        os.environ["MUSTER_RESUME_FROM"] = "latest"
        self.assertEqual(muster.latest(self.folder), self.folder / "step-2")
        os.environ["MUSTER_CHECKPOINT_DIR"] = str(self.folder)
        self.assertEqual(muster.latest("elsewhere"), self.folder / "step-2", "the job's folder")
        self.assertEqual(muster.latest(), self.folder / "step-2")
        os.environ["MUSTER_RESUME_FROM"] = str(self.folder / "step-1")
        self.assertEqual(muster.latest(self.folder), self.folder / "step-1")


class Together(Folders):
    """Several ranks write one folder and meet on the board; here a rank is a thread with a rank of its own."""

    def together(self, world, act):
        peer = self.peer(hello={"world": world})
        muster.place()
        at, failures = threading.local(), []
        saving.rank, kept = (lambda: at.rank), saving.rank
        turns, saving._turns = saving._turns, PerThread(at)

        def one(rank):
            at.rank, at.turns = rank, {}
            try:
                act(rank)
            except Exception as failure:
                failures.append((rank, failure))
        threads = [threading.Thread(target=one, args=(rank,)) for rank in range(world)]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
        finally:
            saving.rank, saving._turns = kept, turns
        return peer, failures

    def test_rank_0_gives_the_name_once_all_have_written(self):
        def write(rank):
            with muster.checkpoint(self.folder / "all", step=5, shared=True) as folder:
                (folder / f"part-{rank}").write_text(str(rank))
            self.assertTrue((self.folder / "all").is_dir())
        peer, failures = self.together(3, write)
        self.assertEqual(failures, [])
        self.assertEqual(sorted(entry.name for entry in (self.folder / "all").iterdir()), ["part-0", "part-1", "part-2"])
        self.assertEqual([line["state"] for line in peer.of("checkpoint")], ["begin", "whole"])

    def test_a_rank_that_fails_fails_all_and_leaves_nothing(self):
        def write(rank):
            with muster.checkpoint(self.folder / "all", shared=True) as folder:
                (folder / f"part-{rank}").write_text(str(rank))
                if rank == 1:
                    raise OSError("disk full")
        _, failures = self.together(3, write)
        self.assertEqual(sorted(rank for rank, _ in failures), [0, 1, 2])
        self.assertEqual(self.names(), [])


class PerThread:
    """saving._turns of a rank that is a thread."""

    def __init__(self, at):
        self.at = at

    def get(self, key, default):
        return self.at.turns.get(key, default)

    def __setitem__(self, key, value):
        self.at.turns[key] = value


if __name__ == "__main__":
    unittest.main()
