"""With torch: loops that resume, save and stop together, and data in our order through its DataLoader."""
import errno
import os
import signal
import subprocess
import sys
import textwrap
import unittest
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from case import PYTHON, Case
from test_worker import free_port, has

import muster

TORCH = has("torch")
LOOP = textwrap.dedent("""
    import os, signal, sys
    import torch
    import torch.distributed as dist
    import muster
    import muster.torch

    folder, total, stops_at = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    if "RANK" in os.environ:
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    sampler = muster.BatchSampler(40, 10, seed=1)
    data = torch.arange(160.0).reshape(40, 4).sin()
    loop = muster.torch.Loop(folder, total_steps=total, every=3, model=model, optimizer=optimizer, sampler=sampler)
    for step in loop:
        batch = sampler.indices(sampler.deal(sampler.position))
        loss = model(data[batch]).square().sum() * sampler.world / 10
        optimizer.zero_grad(); loss.backward(); optimizer.step()
        sampler.commit()
        loop.report(loss=loss.detach())
        if step + 1 == stops_at and os.environ.get("RANK", "0") == "0":
            os.kill(os.getpid(), signal.SIGTERM)
        print("step", step, float(loss), batch, flush=True)
    print("weights", [round(float(x), 6) for x in next(model.parameters()).flatten()], flush=True)
""")


@unittest.skipUnless(TORCH, f"{sys.executable} has no torch")
class Loops(Case):
    def setUp(self):
        super().setUp()
        folder = TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def run_ranks(self, world, total, stops_at=0, name="ckpt"):
        at = {**os.environ, "PYTHONPATH": str(PYTHON), "OMP_NUM_THREADS": "1"}
        if world > 1:
            at.update(WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
        started = [subprocess.Popen([sys.executable, "-c", LOOP, str(self.folder / name), str(total), str(stops_at)],
                                    env={**at, **({"RANK": str(rank), "LOCAL_RANK": str(rank)} if world > 1 else {})},
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for rank in range(world)]
        outputs = [process.communicate(timeout=300) for process in started]
        return [process.returncode for process in started], [out for out, _ in outputs], "".join(err for _, err in outputs)

    def steps(self, output):
        return [int(line.split()[1]) for line in output.splitlines() if line.startswith("step")]

    def test_a_stop_of_one_rank_is_the_stop_of_all_and_the_run_goes_on_in_another_world(self):
        codes, outputs, errors = self.run_ranks(2, 8, stops_at=4)
        self.assertEqual(codes, [muster.EXIT_STOPPED] * 2, errors)
        self.assertEqual([self.steps(output) for output in outputs], [[0, 1, 2, 3]] * 2)
        self.assertEqual(sorted(entry.name for entry in (self.folder / "ckpt").iterdir()), ["step-00000003", "step-00000004"])
        codes, (second,), errors = self.run_ranks(1, 8)
        self.assertEqual((codes, self.steps(second)), ([0], [4, 5, 6, 7]), errors)
        codes, (alone,), errors = self.run_ranks(1, 8, name="other")
        self.assertEqual(codes, [0], errors)
        weights = [list(map(float, out.split("weights [")[1].split("]")[0].split(","))) for out in (second, alone)]
        for one, other in zip(*weights):
            self.assertAlmostEqual(one, other, places=4)

    PARTS = textwrap.dedent("""
        import os, sys
        import torch.distributed as dist
        import muster.torch
        from muster import stopping

        dist.init_process_group("gloo")
        rank, leaves = dist.get_rank(), sys.argv[2] == "leaves"
        loop = muster.torch.Loop(sys.argv[1], total_steps=20)
        loop.elastic, knows = True, 5 + 3 * rank
        if rank == 0 and leaves:                        # rank 0 is to stop, and rank 1 to form the next generation
            loop.changed, stopping.should_stop = lambda: False, lambda: loop.step >= knows
        else:
            loop.changed = lambda: loop.step >= knows
        end = "end"
        try:
            for step in loop:
                dist.barrier()                          # of each step: one that is alone in it fails
        except muster.torch.Changed:
            end = "changed"
        except SystemExit as stop:
            end = f"stopped {stop.code}"
        print(loop.step, end, flush=True)
        dist.barrier()
        os._exit(0)
    """)

    def test_ranks_that_hear_of_a_change_one_after_the_other_part_after_the_same_step(self):
        for kind, ends in (("all stay", ["8 changed", "8 changed"]), ("leaves", ["8 stopped 75", "8 changed"])):
            at = {**os.environ, "PYTHONPATH": str(PYTHON), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
            started = [subprocess.Popen([sys.executable, "-c", self.PARTS, str(self.folder), kind], env={**at, "RANK": str(rank)},
                                        stdout=subprocess.PIPE, text=True) for rank in (0, 1)]
            for process in started:
                self.addCleanup(process.kill)  # one may wait for another that failed
            self.assertEqual([process.communicate(timeout=300)[0].strip() for process in started], ends, kind)

    def test_each_step_is_reported_with_its_numbers(self):
        peer = self.peer()
        codes, _, errors = self.run_ranks(1, 4)
        self.assertEqual(codes, [0], errors)
        self.assertEqual([line["step"] for line in peer.of("step")], [1, 2, 3, 4])
        self.assertTrue(all(line["loss"] > 0 and line["total_steps"] == 4 for line in peer.of("step")))
        self.assertEqual([(line["state"], line["step"]) for line in peer.of("checkpoint")], [("begin", 3), ("whole", 3), ("begin", 4), ("whole", 4)])

    def test_other_parts_than_those_of_the_checkpoint_are_refused(self):
        import torch

        import muster.torch
        for _ in muster.torch.Loop(self.folder, total_steps=1, model=torch.nn.Linear(1, 1)):
            pass
        with self.assertRaisesRegex(ValueError, "differ in the parts optimizer"):
            muster.torch.Loop(self.folder, model=torch.nn.Linear(1, 1), optimizer=torch.nn.Linear(1, 1))

    def test_a_full_disk_ends_no_training(self):
        """Refused at steps 2 to 4, and once at the last one: what is written then is whole, and the words are those of the disk."""
        import torch

        import muster.torch
        with self.assertRaisesRegex(OSError, r"No space left on device: '/dev/full'"):
            muster.torch._write({"a": torch.zeros(100_000)}, "/dev/full")
        write, refused = muster.torch._write, [2, 3, 4, 8]

        def full(state, path):
            if state["step"] in refused:
                refused.remove(state["step"])
                raise OSError(errno.ENOSPC, "No space left on device", path)
            write(state, path)
        with patch.multiple(muster.torch, _write=full, AGAIN_S=0.0), self.assertLogs("muster", "WARNING") as logs:
            for _ in muster.torch.Loop(self.folder, total_steps=8, every=2, model=torch.nn.Linear(1, 1)):
                pass
        self.assertEqual(sorted(path.name for path in Path(self.folder).iterdir()), [f"step-{step:08}" for step in (5, 6, 8)])
        self.assertEqual([word in line for line, word in zip(logs.output, ["later step is saved"] * 3 + ["tried again"])], [True] * 4, logs.output)
        with patch.multiple(muster.torch, _write=full, LAST_S=0.0), self.assertRaisesRegex(OSError, "No space left"):
            refused += [9]
            for _ in muster.torch.Loop(self.folder, total_steps=9, model=torch.nn.Linear(1, 1)):
                pass

    def test_checkpoints_are_where_the_job_has_them(self):
        import torch

        import muster.torch
        self.peer(answers={"latest": {"path": None, "step": None}})
        os.environ["MUSTER_CHECKPOINT_DIR"] = str(self.folder)
        with self.assertLogs("muster", "WARNING") as logs:
            for _ in muster.torch.Loop("elsewhere", total_steps=1, model=torch.nn.Linear(1, 1)):
                pass
        self.assertIn("the job's checkpoint.dir, not in elsewhere", logs.output[0])
        self.assertTrue((Path(self.folder) / "step-00000001").is_dir())


@unittest.skipUnless(TORCH, f"{sys.executable} has no torch")
class Data(Case):
    def test_a_data_loader_with_workers_deals_our_order(self):
        from torch.utils.data import DataLoader

        from muster.torch import Stream
        wanted = list(muster.BatchSampler(50, 8, seed=2, rank=1, world=2))
        for workers in (0, 2):
            sampler = muster.BatchSampler(50, 8, seed=2, rank=1, world=2)
            batches = [batch.tolist() for batch in DataLoader(range(50), batch_sampler=sampler, num_workers=workers)]
            self.assertEqual(batches, wanted)
            stream = Stream(range(50), muster.BatchSampler(50, 8, seed=2, rank=1, world=2))
            self.assertEqual([batch.tolist() for batch in DataLoader(stream, batch_size=None, num_workers=workers)], wanted)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    unittest.main()
