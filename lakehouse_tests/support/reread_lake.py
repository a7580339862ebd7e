"""A lake whose source gets another contract, under which its raw records are read again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakehouse.reparse.apply import apply
from lakehouse.reparse.read_again import read_again
from lakehouse_tests.support.lake import SampleLake, contract

if TYPE_CHECKING:
    from datetime import date

    from lakehouse.lake import Lake
    from lakehouse.reparse.read_again import ReadingSummary
    from lakehouse.silver.rebuild import PlannedRebuild

#: A source whose times have no zone of their own.
NAIVE: dict[str, Any] = {"event": "event_time", "arrival": "arrived_at", "naive_times": "in_timezone"}


def source(zone: str = "UTC", **changes: Any) -> Any:
    """A contract in a time zone."""
    return contract(**{"clocks": {**NAIVE, "timezone": zone}} | changes)


def folder(lake: Lake, name: str) -> Lake:
    """Settings with a root of their own, for a reading."""
    return lake.with_settings(root=str(Path(lake.root).parent / name))


def read(sample: SampleLake, into: Lake, first: date | None = None, last: date | None = None) -> ReadingSummary:
    """Read the raw records again, under the lake's contract."""
    return read_again(sample.lake, sample.contract, lambda: sample.spark, first, last, into)


def put(sample: SampleLake, from_: Lake, reason: str = "the zone was wrong") -> PlannedRebuild:
    """Put a reading into force."""
    return apply(sample.lake, sample.contract, lambda: sample.spark, from_, by="anna", reason=reason)


def reread(sample: SampleLake, name: str = "reading") -> ReadingSummary:
    """Read again, put the rows into force and bring silver up to date."""
    into = folder(sample.lake, name)
    summary = read(sample, into)
    put(sample, into)
    sample.update()
    return summary
