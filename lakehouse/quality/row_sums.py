"""Comparison of row sets of any size by sums of hashes, piece by piece and in little memory.

Two sets with equal row counts and equal sums are taken to be equal: the 64-bit sums of different rows agree by chance only. Which
rows are compared is decided by the checks. Hashes are never stored, so they may change between versions.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import pieces

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    Hashes = NDArray[np.uint64]

_SEED = 20_240_101
_SAMPLE = 512
_MIX = tuple(np.uint64(constant) for constant in (0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
_PER_BYTE = np.uint64(0x9E3779B97F4A7C15)
#: Bytes of a text that are hashed together, and the bits of a word's first bytes, from none to all of them.
_WORD = 8
_FIRST_BYTES = np.array([2 ** (8 * count) - 1 for count in range(_WORD + 1)], np.uint64)
_SHIFTS = tuple(np.uint64(bits) for bits in (30, 27, 31))


class RowSums:
    """The row count and the sum of the row hashes of each group. Rows can be added in any order and in any pieces.

    :param by: the columns that form groups.
    :param identity: the columns that distinguish rows within a group: texts, integers, days.
    """

    def __init__(self, by: Sequence[str], identity: Sequence[str]) -> None:
        self._by, self._identity = list(by), list(identity)
        self._sums: dict[tuple[Any, ...], tuple[int, int]] = {}

    def add(self, rows: Iterable[pa.Table]) -> None:
        """Add rows, in pieces, with the columns that form groups and identify rows."""
        for summed in pieces.mapped(self._summed, rows):
            groups = zip(*(summed[name].to_pylist() for name in self._by))
            for group, count, total in zip(groups, summed["count_all"].to_pylist(), summed["hash_sum"].to_pylist()):
                before = self._sums.get(group, (0, 0))
                self._sums[group] = (before[0] + count, (before[1] + total) % 2**64)

    def _summed(self, rows: pa.Table) -> pa.Table:
        hashed = rows.select(self._by).append_column("hash", pa.array(hashes(*(rows[name] for name in self._identity))))
        return hashed.group_by(self._by).aggregate([([], "count_all"), ("hash", "sum")])

    def counts(self) -> Counter[Any]:
        """The row counts by the first group column."""
        counted: Counter[Any] = Counter()
        for group, (count, _) in self._sums.items():
            counted[group[0]] += count
        return counted

    def differing(self, other: RowSums) -> set[tuple[Any, ...]]:
        """The groups whose rows differ between the two sets."""
        groups = self._sums.keys() | other._sums.keys()
        return {group for group in groups if self._sums.get(group) != other._sums.get(group)}


def hashes(*columns: pa.ChunkedArray) -> Hashes:
    """A hash of each row's values; NULL hashes as a distinct value."""
    total = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        total = _mixed(np.add(total, _hashes_of(column)))
    return total


def repeated(numbers: Hashes) -> Hashes:
    """The numbers that occur more than once."""
    ordered = np.sort(numbers)
    return np.unique(ordered[1:][ordered[1:] == ordered[:-1]])


def _hashes_of(column: pa.ChunkedArray) -> Hashes:
    parts = [_hashes_of_chunk(chunk) for chunk in column.chunks]
    return np.concatenate(parts) if parts else np.empty(0, np.uint64)


def _hashes_of_chunk(values: pa.Array) -> Hashes:
    is_null = values.is_null().to_numpy(zero_copy_only=False)
    if pa.types.is_date32(values.type):
        values = values.cast(pa.int32())
    if pa.types.is_integer(values.type):
        numbers: Hashes = pc.fill_null(values, 0).cast(pa.int64()).to_numpy(zero_copy_only=False).view(np.uint64)
    elif _repeats(values):
        coded = values.dictionary_encode()
        numbers = _hashes_of_texts(coded.dictionary.cast(pa.large_string()))[pc.fill_null(coded.indices, 0).to_numpy()]
    else:
        numbers = _hashes_of_texts(values.cast(pa.large_string()))
    hashed: Hashes = np.where(is_null, np.uint64(_SEED), _mixed(numbers + np.uint64(1)))
    return hashed


def _repeats(texts: pa.Array) -> bool:
    """Whether the first rows suggest that few distinct texts fill many rows: then each text is hashed once."""
    sample = texts.slice(0, _SAMPLE).drop_null()
    return len(sample) == _SAMPLE and len(sample.unique()) <= _SAMPLE // 8


def _hashes_of_texts(texts: pa.LargeStringArray) -> Hashes:
    """Hash each text from its bytes, eight at a time, and its length."""
    _, offsets_of, data = texts.buffers()
    offsets = np.frombuffer(offsets_of, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    first, last = int(offsets[0]), int(offsets[-1])
    begins, lengths = offsets[:-1] - first, np.diff(offsets)
    padded = np.zeros(last - first + _WORD, np.uint8)
    if last > first:
        padded[:-_WORD] = np.frombuffer(data, np.uint8, last)[first:]
    # The word that begins at each byte:
    words = np.ndarray(last - first + 1, np.dtype("<u8"), padded, strides=(1,))
    sums: Hashes = lengths.astype(np.uint64) * _PER_BYTE
    rows = np.arange(len(texts))
    for place in range(0, int(lengths.max(initial=0)), _WORD):
        rows = rows[lengths[rows] > place]
        word = words[begins[rows] + place] & _FIRST_BYTES[np.minimum(lengths[rows] - place, _WORD)]
        sums[rows] = _mixed(sums[rows] + word)
    return sums


def _mixed(numbers: Hashes) -> Hashes:
    """Mix the bits of each number, as the generator SplitMix64 does."""
    numbers = (numbers ^ (numbers >> _SHIFTS[0])) * _MIX[0]
    numbers = (numbers ^ (numbers >> _SHIFTS[1])) * _MIX[1]
    numbers ^= numbers >> _SHIFTS[2]
    return numbers
