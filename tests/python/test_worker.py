"""The bindings of libworker: several ranks, several kinds of arrays, and errors that are exceptions with its sentences."""
import os
import socket
import subprocess
import sys
import unittest
from pathlib import Path

from case import PYTHON, Case

import muster

RANK = Path(__file__).resolve().parent / "worker_rank.py"


def has(module, python=sys.executable):
    return subprocess.run([python, "-c", f"import {module}"], capture_output=True).returncode == 0


KEPT = []


def free_port():
    """For ranks that listen there seconds later. A socket that may be shared stays bound to it: no connection of others gets that
    number meanwhile. Without it rank 0 ended with "address in use" once, and rank 1 waited for half an hour."""
    KEPT.append(socket.socket())
    KEPT[-1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    KEPT[-1].bind(("", 0))
    return KEPT[-1].getsockname()[1]


class Ranks(Case):
    def ranks(self, world, *arguments):
        """(exit code, output) of each."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "OMPI", "PMI", "MV2"))}
        at = {"WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "PYTHONPATH": str(PYTHON)}
        started = [subprocess.Popen([sys.executable, RANK, *arguments], env={**kept, **at, "RANK": str(rank), "LOCAL_RANK": str(rank)},
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for rank in range(world)]
        outputs = [process.communicate(timeout=120)[0] for process in started]
        return [(process.returncode, output) for process, output in zip(started, outputs)]

    def check(self, world, *arguments):
        for code, output in self.ranks(world, *arguments):
            self.assertEqual((code, output.splitlines()[-1:]), (0, ["fine"]), output)

    def test_arrays_of_the_standard_library(self):
        self.check(3, "array", "well")

    def test_arrays_of_numpy(self):
        if not has("numpy"):
            self.skipTest(f"{sys.executable} has no numpy")
        self.check(2, "numpy", "well")

    def test_tensors_of_torch(self):
        if not has("torch"):
            self.skipTest(f"{sys.executable} has no torch")
        self.check(2, "torch", "well")

    def test_ranks_that_differ_are_a_mismatch_on_all(self):
        self.check(2, "array", "mismatch")

    def test_a_lost_rank_is_an_exception_on_the_others(self):
        (code, output), (gone, _) = self.ranks(2, "array", "lost")
        self.assertEqual((code, output.splitlines()[-1:], gone), (0, ["fine"], 0), output)


class Alone(Case):
    def test_a_process_alone_is_rank_0_of_1(self):
        with muster.Worker() as worker:
            self.assertEqual((worker.rank, worker.world, worker.local_rank, worker.steps), (0, 1, 0, 0))
            self.assertEqual(worker.gather_object("x"), ["x"])
            self.assertEqual(worker.origin("seed"), "default")
            self.assertEqual(worker.close(), 0)

    def test_a_refused_setting_is_an_error_with_the_sentence(self):
        with self.assertRaisesRegex(muster.Error, "strategy"):
            muster.Worker({"strategy": "zero9"})

    def test_a_damaged_checkpoint_is_an_error(self):
        with muster.Worker() as worker:
            with self.assertRaisesRegex(muster.Error, "/nowhere: there is no folder"):
                worker.verify("/nowhere")

    def test_notices_are_the_programs(self):
        heard = []
        os.environ["MUSTER_STRATGEY"] = "ddp"
        self.addCleanup(os.environ.pop, "MUSTER_STRATGEY")
        with muster.Worker(on_notice=heard.append):
            pass
        self.assertIn("MUSTER_STRATGEY", "".join(heard))


class WithoutTheLibrary(Case):
    def test_it_says_where_it_was_looked_for(self):
        code = "import muster\ntry:\n    muster.Worker()\nexcept muster.Unavailable as error:\n    print(error)"
        out = subprocess.run([sys.executable, "-c", code], env={**os.environ, "MUSTER_LIBWORKER": "/no/such.so", "PYTHONPATH": str(PYTHON)},
                             capture_output=True, text=True, check=True).stdout
        self.assertIn("MUSTER_LIBWORKER", out)
        self.assertIn("/no/such.so", out)


if __name__ == "__main__":
    unittest.main()
