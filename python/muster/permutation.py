"""The keyed permutation that orders an epoch.

A seeded permutation of 0 … size-1 without memory, which can be entered anywhere. It is libworker's
(`libworker/data/permute.h`), number by number: a six-round Feistel network over the next even number
of bits, repeated until the result is inside the range (Black and Rogaway 2002, "Ciphers with
arbitrary finite domains"). tests/python/test_permutation.py compares the two.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, List

if TYPE_CHECKING:
    from collections.abc import Iterator

ROUNDS = 6
SIZE_MAX = 1 << 62
MASK = (1 << 64) - 1
BLOCK = 4096  # places that `places` computes in one step of numpy


def _mix(x: int) -> int:
    """The finaliser of splitmix64 (Steele, Lea and Flood 2014)."""
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


class Permutation:
    """Each (seed, epoch) is another order of 0 … size-1. Immutable; any thread.

    1 ≤ size ≤ 2^62; seed and epoch are taken modulo 2^64, as in C.
    """

    def __init__(self, size: int, seed: int, epoch: int) -> None:
        if not 1 <= size <= SIZE_MAX:
            raise ValueError(f"a permutation of {size} elements: between 1 and 2^62 are possible")
        self.size = size
        self._half = max(1, ((size - 1).bit_length() + 1) // 2)
        key = _mix(seed & MASK) ^ _mix((_mix(epoch & MASK) + 1) & MASK)
        self._keys: List[int] = []
        for number in range(ROUNDS):
            key = _mix((key + number) & MASK)
            self._keys.append(key)

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> int:
        """The element at place `index`. At most four passes of the network on average."""
        if not 0 <= index < self.size:
            raise IndexError(f"place {index} of a permutation of {self.size} elements")
        half, mask = self._half, (1 << self._half) - 1
        while True:
            left, right = index >> half, index & mask
            for key in self._keys:
                left, right = right, left ^ (_mix(right ^ key) & mask)
            index = left << half | right
            # The network permutes the larger range, so a walk from inside returns inside.
            if index < self.size:
                return index

    def places(self, first: int, count: int) -> Iterator[int]:
        """The elements at places first … first+count-1. With numpy in reach they are computed in
        blocks, which is faster; the numbers are the same."""
        if first < 0 or count < 0 or first + count > self.size:
            raise IndexError(f"places {first} to {first + count - 1} of a permutation of {self.size}")
        numpy = _numpy() if count > 1 else None
        if numpy is None:
            yield from (self[index] for index in range(first, first + count))
            return
        for start in range(first, first + count, BLOCK):
            yield from self._block(numpy, start, min(BLOCK, first + count - start))

    def _block(self, numpy: Any, first: int, count: int) -> Any:
        half = numpy.uint64(self._half)
        mask = numpy.uint64((1 << self._half) - 1)
        indices = numpy.arange(first, first + count, dtype=numpy.uint64)
        outside: Any = slice(None)
        while True:
            at = indices[outside]
            left, right = at >> half, at & mask
            for key in self._keys:
                left, right = right, left ^ (_mix_all(numpy, right ^ numpy.uint64(key)) & mask)
            indices[outside] = (left << half) | right
            outside = numpy.nonzero(indices >= numpy.uint64(self.size))[0]
            if not len(outside):
                return indices.tolist()


def _mix_all(numpy: Any, x: Any) -> Any:
    """_mix of each number of an array; unsigned arrays wrap as C does."""
    x = x + numpy.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
    return x ^ (x >> numpy.uint64(31))


def _numpy() -> Any:
    """numpy, or None where it is not installed. Arrays are worth its import only where it is there."""
    try:
        import numpy
    except ImportError:
        return None
    return numpy
