"""A program's own passes in Python, trained by libworker: the same weights in every world and strategy, as plain SGD has them, and
after a resume."""
import os
import subprocess
import sys
import unittest
from pathlib import Path
from tempfile import TemporaryDirectory

from case import PYTHON, Case
from model_rank import BATCH, target
from test_worker import free_port

import muster

RANK = Path(__file__).resolve().parent / "model_rank.py"


def by_hand(steps):
    """(loss of the last step, parameters) of SGD with momentum 0.9, as torch defines it."""
    values, speeds, loss = [0.5] * 6 + [0.0] * 3, [0.0] * 9, 0.0
    for step in range(steps):
        loss = 0.0
        for at in range(9):
            i = at if at < 6 else at - 6
            errors = [values[at] - target(step * BATCH + sample, i) for sample in range(BATCH)]
            loss += sum(error * error / 2 for error in errors) / BATCH
            speeds[at] = 0.9 * speeds[at] + sum(errors) / BATCH
        values = [value - 0.05 * speed for value, speed in zip(values, speeds)]
    return loss, values


class Training(Case):
    def train(self, world, *settings):
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "OMPI", "PMI", "MV2"))}
        at = {**kept, "PYTHONPATH": str(PYTHON)}
        if world > 1:
            at.update(WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
        started = [subprocess.Popen([sys.executable, RANK, *settings], env={**at, **({"RANK": str(rank), "LOCAL_RANK": str(rank)} if world > 1 else {})},
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for rank in range(world)]
        outputs = [process.communicate(timeout=120) for process in started]
        self.assertEqual([process.returncode for process in started], [0] * world, outputs)
        lines = [[line for line in out.splitlines() if line.startswith("values")] for out, _ in outputs]
        _, steps, loss, *values = lines[0][0].split()
        return int(steps), float(loss), list(map(float, values))

    def check(self, trained, steps):
        loss, values = by_hand(steps)
        self.assertEqual(trained[0], steps)
        self.assertAlmostEqual(trained[1], loss, places=5)
        for one, other in zip(trained[2], values):
            self.assertAlmostEqual(one, other, places=5)

    def test_it_is_plain_sgd_in_every_world_and_strategy(self):
        self.check(self.train(1), 20)
        self.check(self.train(3), 20)
        self.check(self.train(2, "strategy=zero1"), 20)

    def test_named_arrays_are_saved_and_another_world_goes_on(self):
        with TemporaryDirectory() as folder:
            self.check(self.train(1, f"checkpoint.dir={folder}", "total_steps=8"), 8)
            with muster.Worker() as worker:
                worker.verify(str(max(Path(folder).iterdir())))
            self.check(self.train(2, f"checkpoint.dir={folder}", "resume_from=latest"), 20)

    def test_a_parameter_of_another_type_is_refused(self):
        import array
        with muster.Worker() as worker:
            with self.assertRaisesRegex(ValueError, "'w' must be float32"):
                muster.Model(worker, {"w": array.array("d", [1.0])})


if __name__ == "__main__":
    unittest.main()
