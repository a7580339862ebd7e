"""Hypothesis settings of the laws that use Spark or real tables: few examples, none of them random."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, Phase
from hypothesis import settings as examples


def derandomized(count: int, *phases: Phase) -> Any:
    """Try ``count`` examples, the same ones in every run; pass ``Phase.shrink`` to minimise a failure."""
    return examples(
        max_examples=count,
        deadline=None,
        phases=[Phase.explicit, Phase.generate, *phases],
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
