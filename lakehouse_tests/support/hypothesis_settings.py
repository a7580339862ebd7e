"""How much the laws that use Spark or real tables try: few examples, none of them random."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeVar

from hypothesis import HealthCheck, Phase
from hypothesis import settings as examples

if TYPE_CHECKING:
    from collections.abc import Sequence

_T = TypeVar("_T")
#: Every example of each law is tried if this variable is set, and others in each run, as before a release; else a fifth of them.
ALL_EXAMPLES = "LAKEHOUSE_ALL_EXAMPLES"
_LEAST = 2


def derandomized(count: int, *phases: Phase) -> Any:
    """Try ``count`` examples or the first fifth of them, the same ones in every run; see :data:`ALL_EXAMPLES`.

    :param phases: pass ``Phase.shrink`` to minimise a failure.
    """
    first = min(count, max(_LEAST, count // 5))
    return examples(
        max_examples=count if os.environ.get(ALL_EXAMPLES) else first,
        deadline=None,
        phases=[Phase.explicit, Phase.generate, *phases],
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


def some(entries: Sequence[_T], count: int) -> Sequence[_T]:
    """``count`` of some entries, evenly spread, the last one among them; all of them if every example is wanted."""
    if os.environ.get(ALL_EXAMPLES) or len(entries) <= count:
        return entries
    return [entries[(number + 1) * len(entries) // count - 1] for number in range(count)]
