"""How much a law tries: a few examples, the same in each run; all of them in the slow tier, or if every example is wanted."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeVar

from hypothesis import HealthCheck, Phase
from hypothesis import settings as examples

if TYPE_CHECKING:
    from collections.abc import Sequence

_T = TypeVar("_T")
#: Every example of each law is tried if this variable is set, and others in each run, as before a release.
ALL_EXAMPLES = "LAKEHOUSE_ALL_EXAMPLES"
_LEAST = 2


def derandomized(count: int, *phases: Phase, at_first: int | None = None) -> Any:
    """Try a part of ``count`` examples, the same ones in every run; all of them under :data:`ALL_EXAMPLES`.

    :param phases: pass ``Phase.shrink`` to minimise a failure.
    :param at_first: how many are tried; default: a fifth, which is right for a law that needs Spark.
    """
    few = max(_LEAST, count // 5) if at_first is None else at_first
    return _trying(count if os.environ.get(ALL_EXAMPLES) else min(count, few), *phases)


def at_length(count: int) -> Any:
    """Try ``count`` examples and minimise a failure: for the slow tier."""
    return _trying(count, Phase.shrink)


def _trying(count: int, *phases: Phase) -> Any:
    return examples(
        max_examples=count,
        deadline=None,
        phases=[Phase.explicit, Phase.generate, *phases],
        derandomize=not os.environ.get(ALL_EXAMPLES),
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


def some(entries: Sequence[_T], count: int) -> Sequence[_T]:
    """``count`` of some entries, evenly spread, the last one among them; all of them if every example is wanted."""
    if os.environ.get(ALL_EXAMPLES) or len(entries) <= count:
        return entries
    return [entries[(number + 1) * len(entries) // count - 1] for number in range(count)]
