"""Waves: how the partitions of a backfill are cut into runs.

Belongs here: the size and the order of waves. Which partitions a backfill has belongs to ``planner``; running a wave belongs to
``orchestration.execution.backfill_runner``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from datetime import date

    from lakehouse.operations.backfills.plan import Order


def cut_into_waves(partitions: Collection[date], order: Order, size: int) -> Iterator[list[date]]:
    """Cut partitions into waves of at most ``size``, in the order of the plan."""
    ordered = sorted(partitions, reverse=order == "descending")
    for start in range(0, len(ordered), size):
        yield ordered[start : start + size]
