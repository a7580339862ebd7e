"""What the running test has tried so far: examples, kills, days. A proof prints it in its closing line."""

from __future__ import annotations

from collections import Counter

_TRIED: Counter[str] = Counter()


def count(what: str, times: int = 1) -> None:
    """Count something that the running test has tried, in the plural: "examples", "kills", "days"."""
    _TRIED[what] += times


def taken() -> dict[str, int]:
    """What was tried since the last call."""
    result = dict(_TRIED)
    _TRIED.clear()
    return result
