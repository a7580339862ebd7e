"""Accidents of single bytes, drawn by a seed: flipped, lost, doubled, swapped, put in, or a block of them overwritten.

What becomes of the record is not predicted, but all the others are as they were, and no line may be lost.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from lakehouse_tests.support.malformed_files.pieces import CSV, JSON, NUMBERS, Piece

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakehouse_tests.support.malformed_files.pieces import Malformation

SEED = 20240201
OF_EACH_KIND = 25
KINDS = (
    "bit flipped",
    "byte replaced",
    "byte lost",
    "byte doubled",
    "byte put in",
    "neighbours swapped",
    "syntax put in",
    "block",
)
SYNTAX = b'",;{}[]:\\\n\r\0\x1f\xef\xff 0'


def malformations(seed: int = SEED) -> Iterator[Malformation]:
    """Some accidents of each kind, in both formats; another seed gives others."""
    for base in (CSV, JSON):
        for kind in KINDS:
            random = Random(f"{seed} {base.format} {kind}")
            for turn in range(OF_EACH_KIND):
                number = random.choice(NUMBERS)
                text = base.records[number - 1].text
                at = random.randrange(len(text) - 1)
                damaged = _damaged(random, kind, text, at)
                if damaged != text:
                    yield base.replaced(f"{kind} at {at} of {number} ({turn})", number, Piece(damaged, "open"))


def _damaged(random: Random, kind: str, text: bytes, at: int) -> bytes:
    before, byte, after = text[:at], text[at : at + 1], text[at + 1 :]
    return {
        "bit flipped": lambda: before + bytes([byte[0] ^ 1 << random.randrange(8)]) + after,
        "byte replaced": lambda: before + random.randbytes(1) + after,
        "byte lost": lambda: before + after,
        "byte doubled": lambda: before + byte * 2 + after,
        "byte put in": lambda: before + random.randbytes(1) + byte + after,
        "neighbours swapped": lambda: before + after[:1] + byte + after[1:],
        "syntax put in": lambda: before + bytes([random.choice(SYNTAX)]) + byte + after,
        "block": lambda: before + random.randbytes(12) + after[11:],
    }[kind]()
