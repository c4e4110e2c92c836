"""The order and the shares of samples are libworker's, number by number, at any place and world."""
import os
import random
import subprocess
import unittest

from case import ROOT, Case

from muster.permutation import Permutation
from muster.sampler import BatchSampler, Sampler, share

DEALS = os.path.join(os.environ.get("MUSTER_TEST_BUILD", str(ROOT / "build")), "tests", "deal_rows")


def dealt_by_c(rows):
    """For each row (count batch seed drop_last world rank position batches) the lines of deal_rows."""
    done = subprocess.run([DEALS], input="".join(" ".join(map(str, row)) + "\n" for row in rows), capture_output=True, text=True, check=True)
    lines = iter([list(map(int, line.split())) for line in done.stdout.splitlines()])
    return [[next(lines) for _ in range(row[-1])] for row in rows]


class ThePermutation(Case):
    def test_it_is_a_permutation_of_every_small_size(self):
        for size in [*range(1, 70), 255, 256, 257, 4097]:
            self.assertEqual(sorted(Permutation(size, 5, 1).places(0, size)), list(range(size)))

    def test_numpy_and_plain_python_give_the_same(self):
        for size in (2, 3, 1000, 12345, (1 << 40) + 7, 1 << 62):
            order = Permutation(size, 1 << 63 | 5, 7)
            first = max(0, size // 2 - 20)
            self.assertEqual(list(order.places(first, min(40, size - first))), [order[i] for i in range(first, first + min(40, size - first))])

    def test_what_is_outside_is_refused(self):
        for size in (0, (1 << 62) + 1):
            with self.assertRaises(ValueError):
                Permutation(size, 0, 0)
        with self.assertRaises(IndexError):
            Permutation(5, 0, 0)[5]
        with self.assertRaises(IndexError):
            list(Permutation(5, 0, 0).places(3, 3))


class TheShares(Case):
    def test_they_are_those_of_c_for_many_sizes_seeds_epochs_and_worlds(self):
        if not os.path.exists(DEALS):
            self.skipTest(f"{DEALS} is not built")
        chance = random.Random(1)
        rows = []
        for _ in range(400):
            count = chance.choice([1, 2, 3, 17, 64, 100, 1000, 65537, 10**12, (1 << 48)])
            batch = chance.choice([1, 2, 7, 17, 64])
            drop_last = int(count >= batch and chance.random() < 0.4)
            world = chance.randint(1, 9)
            position = chance.choice([0, 0, count - 1, 3 * count, chance.randrange(5 * count)])
            rows.append((count, batch, chance.choice([0, 1, 42, (1 << 64) - 1]), drop_last, world, chance.randrange(world), position, 6))
        for row, lines in zip(rows, dealt_by_c(rows)):
            count, batch, seed, drop_last, world, rank, position, _ = row
            sampler = BatchSampler(count, batch, seed=seed, drop_last=bool(drop_last), rank=rank, world=world, allow_empty=True)
            deal = sampler.deal(position)
            for line in lines:
                self.assertEqual([deal.position, deal.samples, deal.next, *sampler.indices(deal)], line, row)
                deal = sampler.deal(deal.next)

    def test_17_over_4(self):
        self.assertEqual([share(17, rank, 4) for rank in range(4)], [(0, 5), (5, 4), (9, 4), (13, 4)])


class AnEpoch(Case):
    def used(self, world, state, batches, **more):
        """What `world` ranks use in so many steps, and the state after them."""
        samplers = [BatchSampler(103, 10, seed=3, rank=rank, world=world, allow_empty=True, **more) for rank in range(world)]
        used = []
        for sampler in samplers:
            sampler.load_state_dict(state)
        while batches:
            for batch in zip(*samplers):
                used += [index for part in batch for index in part]
                for sampler in samplers:
                    sampler.commit()
                batches -= 1
                if not batches:
                    break
        self.assertEqual(len({sampler.position for sampler in samplers}), 1)
        return used, samplers[0].state_dict()

    def test_each_sample_is_used_once_whatever_worlds_share_it(self):
        state, used = BatchSampler(103, 10, seed=3).state_dict(), []
        for world, batches in ((3, 4), (1, 2), (5, 3), (2, 2)):  # 11 batches, the last one of 3 samples
            part, state = self.used(world, state, batches)
            used += part
        self.assertEqual(sorted(used), list(range(103)))
        alone, _ = self.used(1, BatchSampler(103, 10, seed=3).state_dict(), 11)
        self.assertEqual(used, alone)
        self.assertEqual(state["position"], 103)

    def test_a_resume_goes_on_where_the_last_commit_was(self):
        sampler = BatchSampler(103, 10, seed=3)
        iterator = iter(sampler)
        ahead = [next(iterator) for _ in range(5)]  # as a loader that reads ahead
        sampler.commit(2)
        again = BatchSampler(103, 10, seed=3)
        again.load_state_dict(sampler.state_dict())
        self.assertEqual(next(iter(again)), ahead[2])

    def test_epochs_follow_each_other_without_commits(self):
        sampler = BatchSampler(20, 10, seed=3)
        first, second = list(sampler), list(sampler)
        self.assertEqual([sorted(sum(epoch, [])) for epoch in (first, second)], [list(range(20))] * 2)
        self.assertNotEqual(first, second)
        sampler.set_epoch(0)
        self.assertEqual(list(sampler), first)
        sampler.set_epoch(1)
        self.assertEqual(list(sampler), second)

    def test_the_sampler_of_single_indices_is_the_same_in_parts_of_equal_size(self):
        for world in (1, 2, 5):
            parts = [list(Sampler(103, 10, seed=3, rank=rank, world=world, drop_last=True)) for rank in range(world)]
            self.assertEqual({len(part) for part in parts}, {100 // world})
            self.assertEqual({len(Sampler(103, 10, rank=rank, world=world, drop_last=True)) for rank in range(world)}, {100 // world})
            lists = [sum(BatchSampler(103, 10, seed=3, rank=rank, world=world, drop_last=True), []) for rank in range(world)]
            self.assertEqual(parts, lists)

    def test_the_place_is_that_of_the_environment(self):
        os.environ.update(RANK="2", WORLD_SIZE="3")
        self.assertEqual((BatchSampler(9, 3).rank, BatchSampler(9, 3).world), (2, 3))

    def test_what_cannot_be_dealt_is_refused_with_the_reason(self):
        for wrong in (lambda: BatchSampler(0, 1), lambda: BatchSampler(5, 0), lambda: BatchSampler(5, 6, drop_last=True),
                      lambda: BatchSampler(12, 10, rank=0, world=3), lambda: BatchSampler(9, 3, rank=3, world=3),
                      lambda: Sampler(100, 10, rank=0, world=3)):
            with self.assertRaises(ValueError):
                wrong()
        with self.assertRaisesRegex(ValueError, "has count 103, this one 104"):
            BatchSampler(104, 10).load_state_dict(BatchSampler(103, 10).state_dict())


if __name__ == "__main__":
    unittest.main()
