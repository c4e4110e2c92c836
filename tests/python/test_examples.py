"""The programs of examples/torch, each with the package that it is about, where one of the Pythons here has it: steps and losses
reach the agent, a stop saves and ends with 75, and the next run goes on from there."""
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path
from tempfile import TemporaryDirectory

from agent_peer import ENVIRONMENT, wait_for
from case import PYTHON, ROOT, Case
from test_worker import free_port, has

import muster

EXAMPLES = ROOT / "examples/torch"
PYTHONS = [sys.executable, *filter(None, [os.environ.get("MUSTER_TEST_PEERS")]), str(ROOT / ".venv/bin/python")]
KNOWN = {}


def python_with(*modules):
    """The first Python here that has them, or None."""
    if modules not in KNOWN:
        KNOWN[modules] = next((python for python in PYTHONS if Path(python).exists() and has(", ".join(modules), python)), None)
    return KNOWN[modules]


class Examples(Case):
    STEPS = 40

    def setUp(self):
        super().setUp()
        folder = TemporaryDirectory(ignore_cleanup_errors=True) if sys.version_info >= (3, 10) else TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def start(self, python, script, folder, world):
        at = {**os.environ, "PYTHONPATH": str(PYTHON), "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true", "CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1"}
        if world > 1:
            at.update(WORLD_SIZE=str(world), LOCAL_WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()), GROUP_WORLD_SIZE="1",
                      NODE_RANK="0")
        return [subprocess.Popen([python, EXAMPLES / script, folder, str(self.STEPS)], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                 text=True, env={**at, ENVIRONMENT: self.peers[rank].path,
                                                 **({"RANK": str(rank), "LOCAL_RANK": str(rank)} if world > 1 else {})}) for rank in range(world)]

    def end(self, processes):
        outputs = [process.communicate(timeout=300)[0] for process in processes]
        return [process.returncode for process in processes], "\n".join(outputs)

    def steps(self):
        return [line["step"] for line in self.peer_.of("step")]

    def saved(self):
        return [line["path"] for line in self.peer_.of("checkpoint") if line["state"] == "whole"]

    def check(self, modules, script, world=1, stops=True):
        python = python_with(*modules)
        if not python:
            self.skipTest(f"no Python here has {' and '.join(modules)} (./dev setup peers, or MUSTER_TEST_PEERS)")
        self.peers = [self.peer(hello={"rank": 0, "world": world})]
        self.peers += [self.peer(hello={"rank": rank, "world": world}, with_board_of=self.peers[0]) for rank in range(1, world)]
        self.peer_ = self.peers[0]
        folder = f"{self.folder}/ckpt-{world}"
        processes = self.start(python, script, folder, world)
        if stops:
            wait_for("some steps", lambda: self.steps() and self.steps()[-1] >= 3 or any(p.poll() is not None for p in processes), 300)
            for peer in self.peers:
                peer.event(event="stop", grace_s=60, reason="drained")
            for process in processes:
                process.terminate()  # the agent does so, too
            codes, output = self.end(processes)
            self.assertEqual(codes, [muster.EXIT_STOPPED] * world, output)
            stopped = self.steps()[-1]
            self.assertTrue(self.saved() and re.search(rf"\b0*{stopped}$", self.saved()[-1]), (self.saved(), stopped))
            for peer in self.peers:
                peer.heard.clear()
                peer.answers["latest"] = {"path": self.newest(folder)}
            self.peer_.board.clear()  # another generation
            processes = self.start(python, script, folder, world)
        codes, output = self.end(processes)
        self.assertEqual(codes, [0] * world, output)
        self.assertIn(f"done after {self.STEPS} steps", output)
        if stops:
            self.assertGreater(self.steps()[0], stopped, output)
        self.assertEqual(self.steps()[-1], self.STEPS)
        losses = [line.get("loss", line.get("metrics", {}).get("loss")) for line in self.peer_.heard if line["do"] in ("step", "metric")]
        self.assertTrue(any(isinstance(loss, float) for loss in losses), self.peer_.heard[:5])
        self.assertTrue(self.saved() or stops)

    def newest(self, folder):
        """The newest checkpoint on disk."""
        found = [path for path in Path(folder).iterdir() if not path.name.startswith(".") and path.is_dir()]
        return str(max(found, key=lambda path: path.stat().st_mtime_ns))

    def test_a_loop_with_ddp(self):
        self.check(("torch",), "loop.py")

    def test_fsdp2_writes_one_checkpoint_of_all_ranks(self):
        self.check(("torch", "torch.distributed.fsdp", "torch.distributed.checkpoint.state_dict"), "fsdp2.py", world=2)

    def test_accelerate(self):
        self.check(("torch", "accelerate"), "accelerated.py", world=2)

    def test_the_trainer(self):
        for world in (1, 2):
            with self.subTest(world=world):
                self.check(("torch", "transformers", "accelerate"), "trainer.py", world=world)

    def test_lightning(self):
        for world in (1, 2):
            with self.subTest(world=world):
                self.check(("torch", "lightning"), "lit.py", world=world)

    def test_jax_on_two_processes(self):
        self.check(("jax", "numpy"), "jax_train.py", world=2)


if __name__ == "__main__":
    unittest.main()
