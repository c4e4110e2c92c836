"""Which samples a rank gets, in libworker's order: exact at any world size and after a resume.

The position is the number of global samples dealt since the start, over all epochs. It is the same
at any world size, so a checkpoint needs this one number. Sample p is the (p mod count)-th of epoch
p / count, in the order of a keyed permutation. A global batch over w ranks is cut into contiguous
parts in rank order; the first (batch mod w) parts are one larger. docs/data.md has the rules.

    sampler = muster.BatchSampler(len(dataset), batch=64, seed=1)
    loader = torch.utils.data.DataLoader(dataset, batch_sampler=sampler)
    for x, y in loader:
        …                           # forward, backward, optimizer.step()
        sampler.commit()            # this batch counts
    state = sampler.state_dict()    # into the checkpoint; any world loads it

Both classes follow torch's sampler protocols and import no torch.
"""
from __future__ import annotations

import os
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

from .permutation import Permutation


class Deal(NamedTuple):
    """One global batch, and this rank's part of it."""

    position: int  # of its first sample, over all epochs
    samples: int  # of all ranks
    first: int  # of this rank's part, counted from the batch's first sample
    mine: int  # samples of this rank; may be 0
    next: int  # position of the batch after it


def share(total: int, rank: int, world: int) -> Tuple[int, int]:
    """(first, count) of a rank's contiguous part of 0 … total-1, as wk_split: 17 over 4 are 5, 4, 4, 4."""
    each, more = divmod(total, world)
    return each * rank + min(rank, more), each + (rank < more)


def _place(rank: Optional[int], world: Optional[int]) -> Tuple[int, int]:
    """This process's place: given, or of RANK and WORLD_SIZE, or alone."""
    rank = int(os.environ.get("RANK", "0")) if rank is None else rank
    world = int(os.environ.get("WORLD_SIZE", "1")) if world is None else world
    if not 0 <= rank < world:
        raise ValueError(f"rank {rank} of {world} ranks does not exist")
    return rank, world


class BatchSampler:
    """Deals this rank's share of each global batch, as lists of indices: a torch `batch_sampler`.

    count      samples of the data set
    batch      samples of a global batch, over all ranks
    seed       of the order; each epoch has another one
    shuffle    False: in the order of the data set
    drop_last  leave out the samples after the last full batch of an epoch
    rank, world  by default RANK and WORLD_SIZE, as torchrun and Muster set them
    allow_empty  a rank may get an empty list, where a last batch has fewer samples than ranks.
               Without it such sizes are a ValueError, because a data loader cannot collate nothing

    Each iteration is one epoch, or what is left of it. It begins where the last iteration ended, if
    that came to its end, or else at the committed position. The dealt position is ahead of the
    training where a data loader has workers that read ahead; `commit` says that a batch was used.
    One thread.
    """

    def __init__(self, count: int, batch: int, *, seed: int = 0, shuffle: bool = True, drop_last: bool = False,
                 rank: Optional[int] = None, world: Optional[int] = None, allow_empty: bool = False) -> None:
        self.rank, self.world = _place(rank, world)
        if count < 1 or batch < 1:
            raise ValueError(f"{count} samples in batches of {batch}: both must be at least 1")
        if drop_last and count < batch:
            raise ValueError(f"{count} samples fill no batch of {batch}")
        self.count, self.batch, self.seed = count, batch, seed
        self.shuffle, self.drop_last = shuffle, drop_last
        smallest = batch if drop_last else count % batch or min(batch, count)
        if smallest < self.world and not allow_empty:
            raise ValueError(f"a batch of {smallest} samples has none for some of {self.world} ranks: "
                             "use a larger batch, drop_last=True, or allow_empty=True")
        self._committed = 0
        self._ended: Optional[int] = None  # where the last iteration came to its end
        self._order: Optional[Tuple[int, Permutation]] = None

    @property
    def _dealt_per_epoch(self) -> int:
        return self.count - self.count % self.batch if self.drop_last else self.count

    def __len__(self) -> int:
        """Batches of a whole epoch."""
        return -(-self._dealt_per_epoch // self.batch)

    @property
    def position(self) -> int:
        """The committed position: where an iteration begins, and what a checkpoint keeps."""
        return self._committed

    @position.setter
    def position(self, value: int) -> None:
        if value < 0:
            raise ValueError(f"position {value} is before the first sample")
        self._committed, self._ended = value, None

    @property
    def epoch(self) -> int:
        """Of the committed position."""
        return self._committed // self.count

    def commit(self, batches: int = 1) -> int:
        """The next `batches` global batches were used: call it after each optimizer step. Returns
        the new position."""
        for _ in range(batches):
            self._committed = self.deal(self._committed).next
        return self._committed

    def deal(self, position: int) -> Deal:
        """The global batch at `position`, without its indices. Pure arithmetic."""
        at = position % self.count
        if at >= self._dealt_per_epoch:  # of another batch size, in the part that drop_last leaves out
            position, at = position + self.count - at, 0
        left = self._dealt_per_epoch - at
        samples = min(left, self.batch)
        after = position + (self.count - at if left == samples else samples)
        return Deal(position, samples, *share(samples, self.rank, self.world), after)

    def indices(self, deal: Deal) -> List[int]:
        """This rank's samples of that global batch."""
        epoch, first = divmod(deal.position + deal.first, self.count)
        if not deal.mine:
            return []
        if not self.shuffle:
            return list(range(first, first + deal.mine))
        if self._order is None or self._order[0] != epoch:
            self._order = epoch, Permutation(self.count, self.seed, epoch)
        return list(self._order[1].places(first, deal.mine))

    def deals(self) -> Iterator[Deal]:
        """The batches from the committed position to the end of its epoch."""
        if self._ended is not None:
            self._committed = max(self._committed, self._ended)
            self._ended = None
        deal = self.deal(self._committed)
        end = (deal.position // self.count + 1) * self.count
        while True:
            yield deal
            if deal.next >= end:
                break
            deal = self.deal(deal.next)
        self._ended = end

    def __iter__(self) -> Iterator[List[int]]:
        return (self.indices(deal) for deal in self.deals())

    def set_epoch(self, epoch: int) -> None:
        """torch's DistributedSampler has it, and trainers call it before each epoch. The position
        knows the epoch, so only a jump to another one changes anything."""
        if epoch != max(self._committed, self._ended or 0) // self.count:
            self.position = epoch * self.count

    def state_dict(self) -> Dict[str, Any]:
        """The committed position, and what must be the same for it to mean the same."""
        return {"position": self._committed, "count": self.count, "seed": self.seed, "shuffle": self.shuffle}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """Of any world and batch size. ValueError if it is of other data or another order."""
        for name in ("count", "seed", "shuffle"):
            if state[name] != getattr(self, name):
                raise ValueError(f"the checkpoint's sampler has {name} {state[name]}, this one {getattr(self, name)}")
        self.position = int(state["position"])


class Sampler(BatchSampler):
    """The same samples one by one, for a data loader with `batch_size`: a torch `sampler`.

        loader = DataLoader(dataset, batch_size=64 // world, sampler=muster.Sampler(len(dataset), batch=64))

    The loader cuts the sequence itself. So all ranks must have parts of one size: ValueError if the
    world does not divide the batch, or a last batch has fewer samples than ranks.
    """

    def __init__(self, count: int, batch: int, *, seed: int = 0, shuffle: bool = True, drop_last: bool = False,
                 rank: Optional[int] = None, world: Optional[int] = None) -> None:
        super().__init__(count, batch, seed=seed, shuffle=shuffle, drop_last=drop_last, rank=rank, world=world)
        if batch % self.world:
            raise ValueError(f"{self.world} ranks cannot share a batch of {batch} evenly")

    def __len__(self) -> int:
        """Samples of this rank in a whole epoch."""
        full, rest = divmod(self._dealt_per_epoch, self.batch)
        return full * (self.batch // self.world) + share(rest, self.rank, self.world)[1]

    def __iter__(self) -> Iterator[int]:  # type: ignore[override]
        return (index for deal in self.deals() for index in self.indices(deal))
